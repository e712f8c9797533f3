"""Late interaction is recognised in ColBERT's and in PyLate's layout, or refused where it would come out wrong."""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from consumer.errors import SettingsInvalid
from consumer.model.card import ModelKind, Scale
from consumer.model.token_vectors import TokenVectors
from consumer.tokenization import ModelTokenizer
from tests.unit.model.folders import BERT, MEAN, model_folder, write_safetensors
from tests.unit.model.test_model_card import card, refusal

COLBERT = BERT | {"architectures": ["HF_ColBERT"]}
METADATA = {"query_maxlen": 12, "doc_maxlen": 14, "attend_to_mask_tokens": True, "query_token_id": "[unused0]"}
MASK = {"tokenizer_config.json": {"mask_token": {"content": "[MASK]"}}}
PROJECTION = {"linear.weight": (3, 4)}
SENTENCE = {"model_type": "ColBERT", "query_prefix": "[Q] ", "document_prefix": "[D] ", "do_query_expansion": False}
MODULES = [
    {"path": "", "type": "sentence_transformers.models.Transformer"},
    {"path": "1_Dense", "type": "pylate.models.Dense.Dense"},
]
DENSE = {"in_features": 4, "out_features": 3, "bias": False, "activation_function": "torch.nn.Identity"}


def colbert(folder: Path, config: Any = (), shapes: Any = PROJECTION, **metadata: Any) -> Path:
    return model_folder(folder, COLBERT | dict(config), shapes, {"artifact.metadata": METADATA | metadata} | MASK)


def pylate(folder: Path, modules: Any = MODULES, **sentence: Any) -> Path:
    files = {"config_sentence_transformers.json": SENTENCE | sentence, "modules.json": modules, **MASK}
    model_folder(folder, BERT, files=files | {"1_Dense/config.json": DENSE})
    write_safetensors(folder / "1_Dense" / "model.safetensors", PROJECTION)
    return folder


def test_colberts_own_layout(tmp_path: Path):
    found = card(colbert(tmp_path))
    assert (found.kind, found.scale, found.tasks) == (ModelKind.LATE_INTERACTION, Scale.MAXSIM, ("rerank", "score"))
    assert (found.hidden_size, found.usable_tokens, found.dense_modules) == (3, 14, 0)
    vectors = found.token_vectors
    assert vectors is not None
    assert (vectors.query_marker, vectors.document_marker) == ("[unused0]", "[unused1]")
    assert (vectors.query_tokens, vectors.filling) == (12, "[MASK]")
    assert "," in vectors.skipped


def test_pylates_layout(tmp_path: Path):
    found = card(pylate(tmp_path, query_length=9, document_length=11, skiplist_words=["."]))
    assert (found.kind, found.hidden_size, found.usable_tokens, found.dense_modules) == (
        ModelKind.LATE_INTERACTION,
        3,
        11,
        1,
    )
    assert found.token_vectors == TokenVectors("[Q] ", "[D] ", 9, None, (".",))


def test_queries_filled_up_with_unseen_tokens_are_refused_unless_they_are_to_be_left_out(tmp_path: Path):
    folder = colbert(tmp_path, attend_to_mask_tokens=False)
    assert "engine.query_expansion to false" in refusal(folder)
    without = card(folder, query_expansion=False)
    assert without.token_vectors is not None
    assert without.token_vectors.filling is None
    seen = card(colbert(tmp_path / "seen"))
    assert seen.fingerprint != card(colbert(tmp_path / "seen"), query_expansion=False).fingerprint
    assert "engine.query_expansion" in refusal(pylate(tmp_path / "pylate", do_query_expansion=None))


@pytest.mark.parametrize(
    ("config", "shapes", "metadata", "says"),
    [
        ({}, {}, {}, "linear.weight"),
        ({}, {"linear.weight": (3, 5)}, {}, "linear.weight"),
        ({"dim": 5}, PROJECTION, {}, "linear.weight"),
        ({}, PROJECTION | {"linear.bias": (3,)}, {}, "linear.weight"),
        ({}, PROJECTION, {"similarity": "l2"}, "l2"),
    ],
)
def test_a_colbert_that_would_be_scored_wrong_is_refused(
    tmp_path: Path, config: dict, shapes: dict, metadata: dict, says: str
):
    assert says in refusal(colbert(tmp_path, config, shapes, **metadata))


def test_a_model_without_late_interaction_takes_no_setting_for_it(tmp_path: Path):
    folder = model_folder(tmp_path, BERT, files=MEAN)
    assert "engine.query_expansion" in refusal(folder, query_expansion=False)


def test_markers_are_never_guessed(tmp_path: Path):
    assert "artifact.metadata" in refusal(model_folder(tmp_path, COLBERT, PROJECTION))


def test_pylate_modules_of_another_kind_are_refused(tmp_path: Path):
    assert "Transformer and then Dense" in refusal(pylate(tmp_path / "a", modules=MODULES[:1]))
    assert "Transformer and then Dense" in refusal(pylate(tmp_path / "b", modules=[*MODULES, {"type": "a.Normalize"}]))
    assert "default_prompt_name" in refusal(pylate(tmp_path / "c", default_prompt_name="query"))


def test_a_marker_must_be_in_the_vocabulary_and_must_have_a_place():
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[Q]": 3, "[D]": 4, "one": 5, "two": 6, "three": 7, ",": 8}
    vectors = TokenVectors("[Q]", "[D]", 8, None, (",", ";"))

    def tokenizer(*, special: bool = True) -> Tokenizer:
        made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
        made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if special:
            made.post_processor = processors.TemplateProcessing(
                single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
            )
        return made

    layout = ModelTokenizer(tokenizer(), token_vectors=vectors).vectors
    assert layout is not None
    assert layout.query([5, 6]).ids == [1, 3, 5, 6, 2]
    assert layout.document([5, 8], 10).ids == [1, 4, 5, 8, 2]
    assert layout.counted([1, 4, 5, 8, 2]).tolist() == [True, True, True, False, True]
    unmarked = ModelTokenizer(tokenizer(), token_vectors=TokenVectors("", "", 8, None, ())).vectors
    assert unmarked is not None
    assert unmarked.query([5]).ids == [1, 5, 2]
    with pytest.raises(SettingsInvalid, match="vocabulary"):
        ModelTokenizer(tokenizer(), token_vectors=TokenVectors("[X]", "[D]", 8, None, ()))
    with pytest.raises(SettingsInvalid, match="marker"):
        ModelTokenizer(tokenizer(special=False), token_vectors=vectors)


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ({"prompts": {"query": "search: "}}, "'search: '"),
        ({"prompts": {"document": "[Q] "}}, "beside its markers"),
        ({"query_expansion": {"strategy": "fixed"}}, "query_expansion"),
        ({"attend_to_mask_tokens": True}, "attend_to_mask_tokens"),
        ({"similarity_fn_name": "euclidean"}, "similarity_fn_name"),
    ],
)
def test_what_is_not_read_of_pylates_files_is_refused(tmp_path: Path, sentence: dict, says: str):
    assert card(pylate(tmp_path / "a", prompts={"query": "[Q] ", "document": ""}, similarity_fn_name="MaxSim"))
    assert says in refusal(pylate(tmp_path / "b", **sentence))
