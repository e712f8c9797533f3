"""Remembered or not, a text's ids are those of the model's own tokenizer. For BERT's kind see test_tokenization.py."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from consumer.word_cuts import cut_for
from consumer.word_tokens import WordTokens
from scripts.random_reranker import write_tokenizer
from tests.models.byte_pairs import training_lines
from tests.unit.model import tokenizers

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_END = r"\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "qwen2": _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _END,
    "qwen3.5": _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _END,
    "llama3": _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _END,
    "gpt4o": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    rf"{_CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]+[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]*"
    rf"{_CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _END,
    "gpt2, written out": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
}
SPECIAL = ("<|endoftext|>", "<|im_end|>")
ADDED = ("<think>", "</think>", "  ", "    ", " \n")
"""ModernBERT's has runs of spaces."""
_ODD = (
    *(" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\x1c", "\x85", "\u00a0", "\u2028", "\u3000", "\u200b"),
    *("\ufeff", "\0", ".", ",", "!?", "...", "(", ")", "/", "_", "'", "'s", "'S", "'LL", "'re", '"', "-", "\u2019s"),
    *("1", "12", "123", "4567", "\u00b2", "\u0663", "a", "B", "Word", "paris", "documents", "caf\u00e9", "e\u0301"),
    *("\u0301", "\u0323", "\u0345", "\u1100", "\u1161", "\u11a8", "\u05d0", "\u0e01\u0e33", "\u6771\u4eac", "\u212b"),
    *("\u0387", "\u1fef", "\u2000", "\U0001f600", "\U0001f469\u200d\U0001f52c", "\U0001d15e", *SPECIAL, *ADDED, "<th"),
)
TEXTS = (
    st.text(max_size=60)
    | st.lists(st.sampled_from(_ODD), max_size=24).map("".join)
    | st.lists(st.sampled_from(_ODD), max_size=24).map(" ".join)
    | st.text(st.sampled_from(" \t\n\r\u00a0\u2028\u0301a1.'"), max_size=30)
)


def splitting(pattern: str, behavior: str = "isolated") -> pre_tokenizers.PreTokenizer:
    rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior), rest])


PRE_TOKENIZERS = {name: splitting(pattern) for name, pattern in PATTERNS.items()} | {
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "gpt2, a space before the first word": pre_tokenizers.ByteLevel(add_prefix_space=True),
}
NORMALIZERS = {"as it is": None, "NFC": normalizers.NFC()}


@cache
def _trained(kind: str) -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[kind]
    trainer = trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    odd = ["".join(_ODD[at::step]) for step in range(1, 12) for at in range(step)]
    tokenizer.train_from_iterator(training_lines() + odd * 3, trainer)
    return tokenizer.to_str()


def byte_level(kind: str = "qwen2", normalizer: str = "NFC") -> Tokenizer:
    """As ModelTokenizer leaves it."""
    tokenizer = Tokenizer.from_str(_trained(kind))
    if NORMALIZERS[normalizer] is not None:
        tokenizer.normalizer = NORMALIZERS[normalizer]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=token.isspace()) for token in ADDED])
    tokenizer.encode_special_tokens = True
    return tokenizer


def own(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.fixture(scope="module", params=sorted(NORMALIZERS))
def normalizer(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module", params=sorted(PRE_TOKENIZERS))
def both(request: pytest.FixtureRequest, normalizer: str) -> tuple[Tokenizer, WordTokens]:
    tokenizer = byte_level(request.param, normalizer)
    words = WordTokens.of(tokenizer)
    assert words is not None
    return tokenizer, words


@given(text=TEXTS)
def test_the_ids_are_the_tokenizers_own(both: tuple[Tokenizer, WordTokens], text: str):
    tokenizer, words = both
    assert words.encode([text, f"paris {text} 12"]) == [own(tokenizer, text), own(tokenizer, f"paris {text} 12")]


def test_what_is_white_space_to_a_tokenizer_is_white_space_here():
    characters = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)
    others_removed = pre_tokenizers.Split(Regex(r"\S+"), "removed")
    found = "".join(piece for piece, _ in others_removed.pre_tokenize_str(characters))
    assert len(found) == 25
    assert found.isspace()


@given(text=TEXTS)
def test_the_pieces_are_the_text_and_each_cut_is_at_a_space_behind_a_word(text: str):
    cut = cut_for(byte_level())
    assert cut is not None
    pieces = cut(text)
    assert "".join(pieces) == text
    for before, after in pairwise(filter(None, pieces)):
        assert not before[-1].isspace()
        assert after[0] == " "


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("one two, three's 12", ["one", " two,", " three's", " 12"]),
        ("one  two three", ["one", "  two", " three"]),
        (" one two ", [" one", " two", " "]),
        ("one \n two\tthree \u00a0four five", ["one", " \n two\tthree", " \u00a0four", " five"]),
        ("one\n two three", ["one\n two", " three"]),
        ("end.\n\nNext one\n", ["end.\n\nNext", " one\n"]),
        ("a \u0301b", ["a", " \u0301b"]),
        ("", []),
        (" ", [" "]),
        ("\n \n", ["\n \n"]),
    ],
)
def test_a_text_is_cut_before_each_space_behind_a_word(text: str, pieces: list[str]):
    cut = cut_for(byte_level())
    assert cut is not None
    assert [piece for piece in cut(text) if piece] == pieces


def test_a_piece_of_many_tokens_is_not_kept():
    words = WordTokens.of(byte_level())
    assert words is not None
    words.encode(["short " + "\U0001f9ff" * 20 + " far" * 3])
    assert {"short", " far"} <= words._ids.keys()
    assert not [word for word, ids in words._ids.items() if max(len(word), len(ids)) > 24]


def test_the_tokenizers_of_the_small_models_are_cut(tmp_path: Path):
    write_tokenizer(tmp_path)
    for tokenizer in (tokenizers.tokenizer("byte_pairs"), Tokenizer.from_file(str(tmp_path / "tokenizer.json"))):
        tokenizer.encode_special_tokens = True
        assert WordTokens.of(tokenizer) is not None


@pytest.mark.parametrize("kind", ["greedy", "spaces_as_marks"])
def test_other_kinds_are_not_cut(kind: str):
    tokenizer = tokenizers.tokenizer(kind)
    tokenizer.encode_special_tokens = True
    assert WordTokens.of(tokenizer) is None


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{N}{1,3}",  # leaves words and spaces over, in one piece
        r"\w+\s|\s+",  # a word takes the space behind it along
        r"(?<=x) \p{L}+|\s+",  # looks behind
        PATTERNS["qwen2"] + "|x",
    ],
)
def test_a_pattern_that_is_not_known_is_not_cut(pattern: str):
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = splitting(pattern)
    assert cut_for(tokenizer) is None


def test_another_use_of_the_pattern_is_not_cut():
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = splitting(PATTERNS["qwen2"], "merged_with_next")
    assert cut_for(tokenizer) is None


def test_another_normaliser_is_not_cut():
    """NFKC makes a space of other characters."""
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.NFKC()
    assert cut_for(tokenizer) is None


def test_a_model_with_dropout_is_not_cut():
    tokenizer = byte_level()
    tokenizer.model.dropout = 0.1
    assert cut_for(tokenizer) is None


def test_a_tokenizer_that_obeys_control_tokens_in_a_text_is_not_cut():
    tokenizer = byte_level()
    tokenizer.encode_special_tokens = False
    assert cut_for(tokenizer) is None


@pytest.mark.parametrize(
    "token",
    [
        AddedToken("new york"),
        AddedToken("paris "),
        AddedToken("<mask>", rstrip=True),
        AddedToken("paris", single_word=True),
    ],
)
def test_an_added_token_that_may_reach_across_a_cut_forbids_all(token: AddedToken):
    tokenizer = byte_level()
    tokenizer.add_tokens([token])
    assert WordTokens.of(tokenizer) is None


@pytest.mark.parametrize("content", ["<mask>", " paris"])
@given(texts=st.lists(st.sampled_from(["<mask>", " paris", "paris", " ", "  ", "\n", "x"]), max_size=12))
def test_an_added_token_may_take_the_space_before_it_along(content: str, texts: list[str]):
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken(content, lstrip=True)])
    words = WordTokens.of(tokenizer)
    assert words is not None
    assert words.encode(["".join(texts)]) == [own(tokenizer, "".join(texts))]
