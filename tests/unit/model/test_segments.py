"""Whether the second text of a pair is marked: as transformers' own tokenizer of the same folder has it."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from consumer.errors import SettingsInvalid
from consumer.loading import load_model
from consumer.sections import EngineSettings
from tests.unit.model.folders import HEAD, model_folder

pytestmark = pytest.mark.usefixtures("weights_not_looked_at")

QUERY, DOCUMENT = "one two", "three four five"
WORDS = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *QUERY.split()])}
SPECIAL = [("[CLS]", WORDS["[CLS]"]), ("[SEP]", WORDS["[SEP]"])]
MARKED = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=SPECIAL
)
UNMARKED = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=SPECIAL
)
CLASSES = (
    *(None, "BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast"),
    *("PreTrainedTokenizerFast", "TokenizersBackend", "ElectraTokenizer", "MPNetTokenizer", "NoSuchTokenizer"),
)
NAMES: tuple[dict[str, Any], ...] = (
    {},
    {"model_input_names": ["input_ids", "attention_mask"]},
    {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]},
)
HEADS = {
    "bert": ("BertForSequenceClassification", "classifier.weight"),
    "roberta": ("RobertaForSequenceClassification", "classifier.out_proj.weight"),
    "xlm-roberta": ("XLMRobertaForSequenceClassification", "classifier.out_proj.weight"),
}


def cross_encoder(
    folder: Path,
    tokenizer_config: dict[str, Any],
    model_type: str = "bert",
    post_processor: processors.PostProcessor | None = MARKED,
    **config: Any,
) -> Path:
    architecture, head = HEADS[model_type]
    stated = HEAD | {"architectures": [architecture], "model_type": model_type, "id2label": {"0": "relevance"}} | config
    model_folder(folder, stated, {head: (1, 4)}, {"tokenizer_config.json": tokenizer_config})
    tokenizer = Tokenizer(models.WordPiece(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([token for token in WORDS if token.startswith("[")])
    if post_processor is not None:
        tokenizer.post_processor = post_processor
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return folder


def found(folder: Path) -> tuple[list[int], list[int]]:
    """Ids and segments of a pair."""
    loaded = load_model(EngineSettings(model=str(folder)))
    query, document = loaded.encoder.encode([QUERY, DOCUMENT])
    pair = loaded.encoder.pair(query, document, 16)
    start = pair.second_segment_start
    assert loaded.card.has_segments == loaded.card.describe()["token_type_ids"] == (start is not None)
    first = len(pair.ids) if start is None else start
    return pair.ids, [0] * first + [1] * (len(pair.ids) - first)


def expected(folder: Path) -> tuple[list[int], list[int]]:
    """The same as transformers gives them to the model, for which token_type_ids that are left out are zeros."""
    from transformers import AutoTokenizer  # noqa: PLC0415 - seconds to import, and collecting the tests must not

    encoded = AutoTokenizer.from_pretrained(str(folder))(QUERY, DOCUMENT)
    return encoded["input_ids"], encoded.get("token_type_ids", [0] * len(encoded["input_ids"]))


@pytest.mark.parametrize("model_type", HEADS)
def test_segments_are_those_that_transformers_gives_whatever_class_the_files_name(tmp_path: Path, model_type: str):
    marked = set()
    for number, (name, names) in enumerate(product(CLASSES, NAMES)):
        stated = names | ({} if name is None else {"tokenizer_class": name})
        folder = cross_encoder(tmp_path / str(number), stated, model_type)
        try:
            right = expected(folder)
        except Exception:  # noqa: BLE001 - whatever transformers says of it
            with pytest.raises(SettingsInvalid, match="tokenizer"):
                found(folder)
            continue
        assert found(folder) == right, stated
        marked.add(1 in right[1])
    assert marked == {True, False}


def test_a_class_that_gives_no_segments_is_not_given_any_and_one_that_does_is(tmp_path: Path):
    assert found(cross_encoder(tmp_path / "bert", {"tokenizer_class": "BertTokenizer"}))[1].count(1) == 4
    assert found(cross_encoder(tmp_path / "distil", {"tokenizer_class": "DistilBertTokenizer"}))[1].count(1) == 0
    assert found(cross_encoder(tmp_path / "plain", {"tokenizer_class": "PreTrainedTokenizerFast"}))[1].count(1) == 0


@pytest.mark.parametrize("post_processor", [None, MARKED, UNMARKED, processors.BertProcessing(*reversed(SPECIAL))])
def test_segments_are_marked_where_the_files_post_processor_says(
    tmp_path: Path, post_processor: processors.PostProcessor | None
):
    folder = cross_encoder(tmp_path, NAMES[2] | {"tokenizer_class": "TokenizersBackend"}, "bert", post_processor)
    assert found(folder) == expected(folder)


def test_a_model_with_one_segment_has_none_whatever_its_tokenizer_says(tmp_path: Path):
    folder = cross_encoder(tmp_path, {"tokenizer_class": "BertTokenizer"}, "xlm-roberta", type_vocab_size=1)
    assert found(folder)[1].count(1) == 0


@pytest.mark.parametrize("model_type", HEADS)
def test_a_config_that_does_not_say_how_many_segments_there_are_means_transformers_own_number(
    tmp_path: Path, model_type: str
):
    from transformers import AutoConfig  # noqa: PLC0415

    folder = cross_encoder(tmp_path, {"tokenizer_class": "BertTokenizer"}, model_type)
    config = json.loads((folder / "config.json").read_text())
    del config["type_vocab_size"]
    (folder / "config.json").write_text(json.dumps(config))
    assert AutoConfig.from_pretrained(str(folder)).type_vocab_size == 2
    assert found(folder) == expected(folder)
    assert 1 in found(folder)[1]


def test_a_text_alone_in_another_segment_than_the_first_is_refused(tmp_path: Path):
    template = processors.TemplateProcessing(
        single="[CLS] $A:1 [SEP]:1", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=SPECIAL
    )
    with pytest.raises(SettingsInvalid, match="segments"):
        found(cross_encoder(tmp_path, NAMES[2] | {"tokenizer_class": "TokenizersBackend"}, "bert", template))


def test_the_fingerprint_tells_whether_segments_are_given(tmp_path: Path):
    folder = cross_encoder(tmp_path, NAMES[2])
    given = load_model(EngineSettings(model=str(folder))).card.fingerprint
    (folder / "tokenizer_config.json").write_text(json.dumps(NAMES[1]))
    assert load_model(EngineSettings(model=str(folder))).card.fingerprint != given
