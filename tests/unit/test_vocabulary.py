"""A tokenizer whose texts may become an id that the model has not is refused at start, and only such a one."""

from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

from consumer.errors import SettingsInvalid
from consumer.loading import load_model
from consumer.model.template import Template
from consumer.model.token_vectors import TokenVectors
from consumer.sections import EngineSettings
from consumer.tokenization import ModelTokenizer
from tests.unit.model.folders import BERT, MEAN, model_folder

WORDS = {word: number for number, word in enumerate(["<s>", "</s>", "<unk>", "one", "two", "three", "four"])}


def tokenizer(*added: AddedToken) -> Tokenizer:
    """Seven entries and those that are added."""
    found = Tokenizer(models.WordLevel(WORDS, unk_token="<unk>"))
    found.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    for token in added:
        (found.add_special_tokens if token.special else found.add_tokens)([token])
    return found


def test_a_tokenizer_with_more_entries_than_the_model_is_refused_with_those():
    ModelTokenizer(tokenizer()).check_vocabulary(7)
    ModelTokenizer(tokenizer()).check_vocabulary(64)
    with pytest.raises(SettingsInvalid, match=r"'four' \(6\), and its config.json a vocab_size of 6"):
        ModelTokenizer(tokenizer()).check_vocabulary(6)
    with pytest.raises(SettingsInvalid, match=r"'<unk>' \(2\), 'one' \(3\), 'two' \(4\) and 2 more"):
        ModelTokenizer(tokenizer()).check_vocabulary(2)


def test_an_added_token_counts_where_a_text_may_become_it():
    new = AddedToken("new york", special=False)
    beyond = ModelTokenizer(tokenizer(new))
    assert beyond.encode(["one new york"])[0].ids == [3, 7]
    with pytest.raises(SettingsInvalid, match=r"'new york' \(7\)"):
        beyond.check_vocabulary(7)
    beyond.check_vocabulary(8)
    padding = ModelTokenizer(tokenizer(AddedToken("[PAD]", special=True)))
    assert 7 not in padding.encode(["one [PAD]"])[0].ids
    padding.check_vocabulary(7)


def test_a_special_token_counts_where_it_stands_around_texts():
    marked = tokenizer(AddedToken("[CLS]", special=True))
    marked.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", pair="[CLS] $A $B", special_tokens=[("[CLS]", 7)]
    )
    with pytest.raises(SettingsInvalid, match=r"'\[CLS\]' \(7\)"):
        ModelTokenizer(marked).check_vocabulary(7)
    ModelTokenizer(marked).check_vocabulary(8)


def test_a_prompts_and_a_querys_own_tokens_count():
    prompt = tokenizer(AddedToken("<end>", special=True))
    template = Template("one {query} two {document} <end>")
    with pytest.raises(SettingsInvalid, match=r"'<end>' \(7\)"):
        ModelTokenizer(prompt, template=template).check_vocabulary(7)
    ModelTokenizer(prompt, template=template).check_vocabulary(8)
    filled = tokenizer(AddedToken("[MASK]", special=True))
    filled.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    vectors = TokenVectors("", "", 8, "[MASK]", ())
    with pytest.raises(SettingsInvalid, match=r"'\[MASK\]' \(7\)"):
        ModelTokenizer(filled, token_vectors=vectors).check_vocabulary(7)


@pytest.mark.usefixtures("weights_not_looked_at")
def test_a_model_is_refused_before_its_engine_starts(tmp_path: Path):
    folder = model_folder(tmp_path, BERT | {"vocab_size": 6}, files=MEAN)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    tokenizer().save(str(folder / "tokenizer.json"))
    with pytest.raises(SettingsInvalid, match="vocab_size of 6"):
        load_model(EngineSettings(model=str(folder)))
    (folder / "config.json").write_text(
        (folder / "config.json").read_text().replace('"vocab_size": 6', '"vocab_size": 9')
    )
    assert load_model(EngineSettings(model=str(folder)))
