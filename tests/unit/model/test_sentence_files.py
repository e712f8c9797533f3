"""What sentence-transformers would read of a folder and the worker does not is refused, by file and key."""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models

from consumer.check import check_model
from consumer.model.card import ModelKind
from consumer.sections import EngineSettings
from consumer.settings import Settings
from tests.unit.model.folders import BERT, HEAD, MEAN, model_folder
from tests.unit.model.test_model_card import card, refusal

SENTENCE, MODEL = "sentence_bert_config.json", "config_sentence_transformers.json"
TYPE = "sentence_transformers.models."
TEXT = {"method": "forward", "method_output_name": "last_hidden_state"}
LOGITS = {"method": "forward", "method_output_name": "logits"}
ONE = HEAD | {"id2label": {"0": "relevance"}}
NORMALIZED = MEAN | {
    "modules.json": [
        {"path": "", "type": TYPE + "Transformer"},
        *MEAN["modules.json"],
        {"path": "2_Normalize", "type": TYPE + "Normalize"},
    ]
}


def embedder(folder: Path, **files: Any) -> Path:
    return model_folder(folder, BERT, files=MEAN | files)


def cross_encoder(folder: Path, **files: Any) -> Path:
    return model_folder(folder, ONE, {"classifier.weight": (1, 4)}, files)


@pytest.mark.parametrize(
    "part",
    [
        *("model_args", "model_kwargs", "config_args", "config_kwargs"),
        *("tokenizer_args", "tokenizer_kwargs", "processor_kwargs"),
    ],
)
@pytest.mark.parametrize("build", [embedder, cross_encoder])
def test_arguments_of_loading_that_nobody_reads_are_refused_and_those_that_change_no_number_are_not(
    tmp_path: Path, build: Any, part: str
):
    assert f"{part} rope_theta 1000" in refusal(build(tmp_path / "a", **{SENTENCE: {part: {"rope_theta": 1000}}}))
    harmless = {"trust_remote_code": True, "revision": "main", "token": "x"}
    build(tmp_path / "b", **{SENTENCE: {part: harmless}})
    assert card(tmp_path / "b")
    assert card(build(tmp_path / "c", **{SENTENCE: {part: {}}}))
    assert card(build(tmp_path / "d", **{SENTENCE: {part: None}}))


def test_arguments_that_the_model_has_anyway_are_no_change(tmp_path: Path):
    for name, stated in {
        "config_args": {"max_position_embeddings": 16, "use_cache": False},
        "tokenizer_args": {"model_max_length": 12, "padding_side": "left", "truncation_side": "right"},
        "model_args": {"torch_dtype": "float16", "add_pooling_layer": False, "attn_implementation": "sdpa"},
    }.items():
        files = {SENTENCE: {name: stated}, "tokenizer_config.json": {"model_max_length": 12}}
        assert card(embedder(tmp_path / name, **files)).usable_tokens == 12
    longer = {SENTENCE: {"max_seq_length": 8, "tokenizer_args": {"model_max_length": 12}}}
    assert "model_max_length" in refusal(embedder(tmp_path / "longer", **longer))
    stated = embedder(tmp_path / "overrides", **{SENTENCE: {"config_args": {"position_scale": 2}}})
    assert "hf_overrides" in refusal(stated)
    assert card(stated, args={"hf_overrides": {"position_scale": 2}})


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"modality_config": {"text": TEXT | {"method_output_name": "pooler_output"}}}, "pooler_output"),
        ({"modality_config": {"text": TEXT | {"method_output_name": ["hidden_states", -2]}}}, "hidden_states"),
        ({"modality_config": {"text": TEXT | {"method": "get_text_features"}}}, "get_text_features"),
        ({"modality_config": {"message": TEXT}}, "None of texts"),
        ({"module_output_name": "sentence_embedding"}, "module_output_name"),
        ({"transformer_task": "fill-mask"}, "fill-mask"),
        ({"query_length": 8}, "query_length"),
        ({"document_length": 8}, "document_length"),
        ({"query_expansion": {"strategy": "fixed"}}, "query_expansion"),
        ({"tokenizer_name_or_path": "another/tokenizer"}, "tokenizer_name_or_path"),
        ({"processing_kwargs": {"text": {"max_length": 4}}}, "max_length"),
        ({"processing_kwargs": {"common": {"add_special_tokens": False}}}, "add_special_tokens"),
        ({"something_new": 1}, "something_new"),
        ({"something_new": False}, "something_new"),
    ],
)
def test_what_an_embedders_transformer_does_otherwise_is_refused(tmp_path: Path, stated: dict, says: str):
    text = refusal(embedder(tmp_path, **{SENTENCE: stated}))
    assert SENTENCE in text
    assert says in text


def test_what_sentence_transformers_6_writes_is_read(tmp_path: Path):
    """Seen: what its save_pretrained writes of an embedder and of a cross-encoder."""
    module = "sentence_transformers.base.modules.transformer.Transformer"
    pooling = "sentence_transformers.sentence_transformer.modules.pooling.Pooling"
    normalize = "sentence_transformers.base.modules.normalize.Normalize"
    embeds = {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": module},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": pooling},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": normalize},
        ],
        SENTENCE: {
            "transformer_task": "feature-extraction",
            "modality_config": {"text": TEXT},
            "module_output_name": "token_embeddings",
        },
        MODEL: {
            "__version__": {"sentence_transformers": "6.2.0"},
            "default_prompt_name": None,
            "model_type": "SentenceTransformer",
            "prompts": {"document": "", "query": ""},
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": {"embedding_dimension": 4, "pooling_mode": "mean", "include_prompt": True},
        "2_Normalize/config.json": dict.fromkeys(("module_input_name", "module_output_name"), "sentence_embedding"),
    }
    assert card(model_folder(tmp_path / "embeds", BERT, files=embeds)).kind is ModelKind.EMBEDDING
    scores = {
        "modules.json": embeds["modules.json"][:1],
        SENTENCE: {
            "transformer_task": "sequence-classification",
            "modality_config": {"text": LOGITS},
            "module_output_name": "scores",
        },
        MODEL: {
            "model_type": "CrossEncoder",
            "prompts": {},
            "default_prompt_name": None,
            "activation_fn": "torch.nn.modules.activation.Sigmoid",
        },
    }
    assert card(cross_encoder(tmp_path / "scores", **scores)).kind is ModelKind.CROSS_ENCODER


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({SENTENCE: {"modality_config": {"text": TEXT}}}, "modality_config"),
        ({SENTENCE: {"transformer_task": "feature-extraction"}}, "feature-extraction"),
        ({MODEL: {"model_type": "SentenceTransformer"}}, "SentenceTransformer"),
        ({MODEL: {"prompts": {"query": "q: "}, "default_prompt_name": "query"}}, "'q: '"),
        ({MODEL: {"truncate_dim": 2}}, "truncate_dim"),
        (
            {"modules.json": [{"path": "", "type": TYPE + "Transformer"}, {"path": "1", "type": TYPE + "Dense"}]},
            "Dense",
        ),
        (MEAN, "Pooling"),
    ],
)
def test_what_a_cross_encoders_files_add_is_refused(tmp_path: Path, files: dict, says: str):
    assert says in refusal(cross_encoder(tmp_path, **files))


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({MODEL: {"truncate_dim": 2}}, "truncate_dim 2"),
        ({MODEL: {"model_type": "SparseEncoder"}}, "SparseEncoder"),
        ({MODEL: {"model_type": "MultiVectorEncoder"}}, "MultiVectorEncoder"),
        ({MODEL: {"query_length": 32}}, "query_length"),
        ({MODEL: {"something_new": "x"}}, "something_new"),
        ({MODEL: {"similarity_fn_name": "hamming"}}, "hamming"),
        ({MODEL: []}, MODEL),
        ({"modules.json": {"type": TYPE + "Transformer"}}, "list of objects"),
        ({"modules.json": [{"path": "", "type": "custom_st.Transformer"}, *MEAN["modules.json"]]}, "custom_st"),
        (
            {"modules.json": [{"path": "0_Transformer", "type": TYPE + "Transformer"}, *MEAN["modules.json"]]},
            "0_Transformer",
        ),
        ({"1_Pooling/config.json": {"pooling_mode": "mean", "normalize_first": True}}, "normalize_first"),
        ({"1_Pooling/config.json": {"pooling_mode": "weightedmean"}}, "weightedmean"),
        (
            {"1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "pooling_mode_weightedmean_tokens": 1}},
            "weightedmean_tokens",
        ),
        (NORMALIZED | {"2_Normalize/config.json": {"module_input_name": "token_embeddings"}}, "token_embeddings"),
        *(
            ({"modules.json": [*MEAN["modules.json"], {"path": "2", "type": TYPE + kind}]}, kind)
            for kind in ("LayerNorm", "Dropout", "WordWeights", "CNN", "LSTM", "Router", "Asym", "WeightedLayerPooling")
        ),
    ],
)
def test_what_an_embedders_other_files_do_otherwise_is_refused(tmp_path: Path, files: dict, says: str):
    assert says in refusal(embedder(tmp_path, **files))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_prompts_that_are_left_out_when_vectors_are_pooled_are_refused(tmp_path: Path, pooling: str):
    files = {"1_Pooling/config.json": {"pooling_mode": pooling, "include_prompt": False}}
    assert card(embedder(tmp_path / "a", **files))
    assert "include_prompt" in refusal(embedder(tmp_path / "b", **files, **{MODEL: {"prompts": {"query": "q: "}}}))


@pytest.mark.parametrize(
    ("measure", "files", "tasks"),
    [
        (None, MEAN, ("rerank", "score", "embed")),
        ("cosine", MEAN, ("rerank", "score", "embed")),
        ("dot", MEAN, ("embed",)),
        ("dot_score", MEAN, ("embed",)),
        ("dot", NORMALIZED, ("rerank", "score", "embed")),
        ("euclidean", NORMALIZED, ("embed",)),
        ("manhattan", MEAN, ("embed",)),
    ],
)
def test_vectors_that_are_compared_otherwise_than_by_cosine_are_given_and_not_compared(
    tmp_path: Path, measure: str | None, files: dict, tasks: tuple[str, ...]
):
    folder = model_folder(tmp_path, BERT, files=files | {MODEL: {"similarity_fn_name": measure}})
    found = card(folder)
    assert found.tasks == tasks
    assert ("similarity_fn_name" in str(found.advice)) == (tasks == ("embed",))


@pytest.mark.usefixtures("weights_not_looked_at")
def test_check_warns_of_tasks_that_are_not_offered_because_of_the_measure(tmp_path: Path):
    folder = embedder(tmp_path, **{MODEL: {"similarity_fn_name": "dot"}})
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.save(str(folder / "tokenizer.json"))
    folder.joinpath("tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    settings = Settings(engine=EngineSettings(model=str(folder), served_names=("m",)))
    (tasks,) = [finding for finding in check_model(settings) if finding.name == "model.tasks"]
    assert (tasks.ok, tasks.found) == (True, "['embed']")
    assert "similarity_fn_name" in tasks.fix
