"""The tokenizer of a folder is the one that transformers builds from it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from consumer.errors import SettingsInvalid
from consumer.tokenization import ModelTokenizer, load_tokenizer

TEXTS = ["The Capital of France, \u00e9t\u00e9 \u6771\u4eac \U0001f600", "don't", "", "a" * 300, "CAF\u00c9 cafe\u0301"]


@pytest.fixture(scope="module")
def transformers_tokenizer(minilm_embed: Path) -> Callable:
    from transformers import AutoTokenizer  # noqa: PLC0415 - seconds to import, and collecting the tests must not

    return AutoTokenizer.from_pretrained(str(minilm_embed))


def load(folder: Path) -> ModelTokenizer:
    return load_tokenizer(folder, has_segments=True, lower_case=False)


def test_a_pair_has_the_ids_and_segments_of_transformers(minilm_embed: Path, transformers_tokenizer: Callable):
    tokenizer = load(minilm_embed)
    for query in TEXTS:
        for document in filter(None, TEXTS):  # transformers takes an empty second text for none; the tasks refuse it
            expected = transformers_tokenizer(query, document)
            pair = tokenizer.pair(*tokenizer.encode([query, document]), 1000)
            assert pair.ids == expected["input_ids"]
            assert pair.second_segment_start == expected["token_type_ids"].index(1)


def test_a_folder_with_only_a_vocabulary_gets_the_same_tokenizer(minilm_embed: Path, tmp_path: Path):
    for name in ("vocab.txt", "tokenizer_config.json", "config.json"):
        (tmp_path / name).write_bytes((minilm_embed / name).read_bytes())
    assert load(tmp_path).encode(TEXTS) == load(minilm_embed).encode(TEXTS)
    assert load(tmp_path).layout == load(minilm_embed).layout


def test_a_folder_without_a_tokenizer_is_refused(minilm_embed: Path, tmp_path: Path):
    """transformers would build one without a vocabulary: every text one unknown word."""
    (tmp_path / "config.json").write_bytes((minilm_embed / "config.json").read_bytes())
    with pytest.raises(SettingsInvalid, match="no tokenizer"):
        load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(SettingsInvalid, match="tokenizer"):
        load(tmp_path)
