"""Assembled sequences equal what the model's own tokenizer makes of the whole."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from consumer import word_tokens
from consumer.errors import SettingsInvalid
from consumer.tokenization import ModelTokenizer

TEXTS = (
    st.text(max_size=60)
    | st.lists(st.sampled_from(["paris", "Lyon", "42", "été", "東京", "a-b", "don't"])).map(" ".join)
    # White space that ends a word, or is removed from within it, and marks that join what stands before them.
    | st.text(st.sampled_from(" \t\n\x0b\x1c\x85\xa0\u2028\u3000\u200b\u0301\u0323\u0345abÉß東."), max_size=20)
)
WORDS = {word: number for number, word in enumerate(["<s>", "</s>", "<unk>", "one", "two", "three", "four"])}


def words(post_processor: processors.PostProcessor | None = None) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    if post_processor is not None:
        tokenizer.post_processor = post_processor
    return tokenizer


@pytest.fixture(scope="module")
def minilm(minilm_embed: Path) -> ModelTokenizer:
    return ModelTokenizer(Tokenizer.from_file(str(minilm_embed / "tokenizer.json")), has_segments=True)


@pytest.fixture(scope="module")
def whole(minilm_embed: Path) -> Tokenizer:
    """The same file, used as its authors meant: a pair at once, cut with `only_second`."""
    tokenizer = Tokenizer.from_file(str(minilm_embed / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


@given(query=TEXTS, document=TEXTS)
def test_a_pair_equals_encoding_the_pair_at_once(minilm: ModelTokenizer, whole: Tokenizer, query: str, document: str):
    expected = whole.encode(query, document)
    pair = minilm.pair(*minilm.encode([query, document]), max_tokens=512)
    assert pair.ids == expected.ids
    first_of_segment_1 = expected.type_ids.index(1)
    assert pair.second_segment_start == first_of_segment_1
    assert not pair.truncated


@given(text=TEXTS)
def test_a_single_text_equals_encoding_it(minilm: ModelTokenizer, whole: Tokenizer, text: str):
    (encoded,) = minilm.encode([text])
    single = minilm.single(encoded, 512)
    assert single.ids == whole.encode(text).ids
    assert single.second_segment_start is None


@given(query=TEXTS, document=TEXTS, max_tokens=st.integers(4, 80))
def test_a_pair_is_cut_only_in_the_document_and_only_at_the_right(
    minilm: ModelTokenizer, whole: Tokenizer, query: str, document: str, max_tokens: int
):
    encoded = minilm.encode([query, document])
    room = max_tokens - 3 - len(encoded[0].ids)
    if room < 1:
        with pytest.raises(ValueError, match="no room"):
            minilm.pair(*encoded, max_tokens)
        return
    if len(encoded[1].ids) > room:
        whole.enable_truncation(max_tokens, strategy="only_second")
    expected = whole.encode(query, document).ids
    whole.no_truncation()
    pair = minilm.pair(*encoded, max_tokens)
    assert pair.ids == expected
    assert pair.truncated == (len(encoded[1].ids) > room)
    assert minilm.encode([query, document]) == encoded


def test_words_that_were_forgotten_have_the_same_tokens_again(
    minilm: ModelTokenizer, whole: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(word_tokens, "_MOST_WORDS", 3)
    for text in ("in paris in Lyon", "on the river", "in Lyon", "", f"{'far' * 20} in paris", "in paris"):
        assert minilm.encode([text, text])[1].ids == whole.encode(text, add_special_tokens=False).ids
        assert minilm._words is not None
        assert len(minilm._words._ids) <= 3


def test_words_are_not_remembered_where_their_tokens_are_not_the_texts(
    minilm_embed: Path, monkeypatch: pytest.MonkeyPatch
):
    """As another release of the tokenizer's library may have it."""
    monkeypatch.setattr(word_tokens.WordTokens, "encode", lambda _self, texts: [[1] for _ in texts])
    encoded = ModelTokenizer(Tokenizer.from_file(str(minilm_embed / "tokenizer.json"))).encode(["in paris"])
    assert [one.ids for one in encoded] == [[1999, 3000]]


def test_an_added_token_of_two_words_is_found(minilm_embed: Path):
    tokenizer = Tokenizer.from_file(str(minilm_embed / "tokenizer.json"))
    tokenizer.add_tokens(["new york"])
    known, new, together = ModelTokenizer(tokenizer).encode(["in", "new", "in new york"])
    assert together.ids[:1] == known.ids
    assert together.ids[1:] == [tokenizer.token_to_id("new york")] != new.ids


def test_a_text_of_just_the_usable_length_is_not_cut(minilm: ModelTokenizer):
    (fits, exceeds) = minilm.encode(["river " * 254, "river " * 255])
    assert not minilm.single(fits, 256).truncated
    cut = minilm.single(exceeds, 256)
    assert cut.truncated
    assert cut.ids == minilm.single(fits, 256).ids
    with pytest.raises(ValueError, match="no room"):
        minilm.single(fits, 2)


def test_the_files_fixed_padding_and_truncation_are_undone(minilm: ModelTokenizer):
    """all-MiniLM's tokenizer.json says 128 and 128."""
    short, long = minilm.encode(["river", "river " * 300])
    assert (len(short.ids), len(long.ids)) == (1, 300)


def test_control_tokens_in_a_text_are_text(minilm: ModelTokenizer):
    injected, spelt = minilm.encode(["[SEP] [CLS]", "river"])
    assert not {101, 102} & set(injected.ids)
    assert len(injected.ids) > 2
    assert minilm.pair(spelt, injected, 512).ids.count(102) == 2


def test_texts_without_content_have_no_tokens(minilm: ModelTokenizer):
    assert [one.ids for one in minilm.encode(["", " ", "\n\t", "\u200b", "\0"])] == [[]] * 5


def test_no_texts_have_no_tokens(minilm: ModelTokenizer):
    assert minilm.encode([]) == []


def test_robertas_layout_is_learnt_and_has_no_segments():
    tokenizer = ModelTokenizer(words(processors.RobertaProcessing(("</s>", 1), ("<s>", 0))), has_segments=True)
    query, document = tokenizer.encode(["one", "two three"])
    pair = tokenizer.pair(query, document, 10)
    assert pair.ids == [0, 3, 1, 1, 4, 5, 1]
    assert pair.second_segment_start is None


def test_segments_are_ignored_where_the_model_has_none():
    bert = processors.BertProcessing(("</s>", 1), ("<s>", 0))
    for has_segments, start in ((True, 3), (False, None)):
        tokenizer = ModelTokenizer(words(bert), has_segments=has_segments)
        assert tokenizer.pair(*tokenizer.encode(["one", "two"]), 9).second_segment_start == start


def test_a_segment_may_begin_with_its_separator():
    template = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s>:1 $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    tokenizer = ModelTokenizer(words(template), has_segments=True)
    assert tokenizer.pair(*tokenizer.encode(["one four", "two"]), 9).second_segment_start == 3


def test_a_tokenizer_without_special_tokens_only_concatenates():
    tokenizer = ModelTokenizer(words(), has_segments=False)
    assert tokenizer.pair(*tokenizer.encode(["one", "two three"]), 9).ids == [3, 4, 5]
    assert tokenizer.pair(*tokenizer.encode(["one", "two three"]), 2).ids == [3, 4]


@pytest.mark.parametrize("pair", ["<s> $A $B:1 $A </s>", "<s> $B:1 $A </s>"])
def test_a_layout_that_is_no_query_then_document_is_refused(pair: str):
    template = processors.TemplateProcessing(single="<s> $A </s>", pair=pair, special_tokens=[("<s>", 0), ("</s>", 1)])
    with pytest.raises(SettingsInvalid, match="tokenizer"):
        ModelTokenizer(words(template), has_segments=True)


def test_lower_case_is_applied_where_the_model_wants_it():
    tokenizer = ModelTokenizer(words(), lower_case=True)
    assert tokenizer.encode(["ONE Two"])[0].ids == [3, 4]
