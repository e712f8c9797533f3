"""Embedders: which decoders are, what stands behind the pooling, and what is refused as it would come out wrong."""

from pathlib import Path
from typing import Any

import pytest

from consumer.model import recognise as recognition
from consumer.model.files import ModelFiles
from tests.unit.model.folders import BERT, HEAD, MEAN, model_folder, write_safetensors
from tests.unit.model.test_model_card import card, refusal

QWEN3 = BERT | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "type_vocab_size": 0}
LAST = MEAN | {"1_Pooling/config.json": {"pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True}}
TYPE = "sentence_transformers.models."
IDENTITY = "torch.nn.modules.linear.Identity"
DENSE = {"in_features": 4, "out_features": 3, "bias": False, "activation_function": IDENTITY}


@pytest.mark.parametrize("architecture", ["Qwen3ForCausalLM", "Qwen3Model", "Qwen2Model", "LlamaModel"])
def test_a_decoder_that_says_how_to_pool_is_an_embedder_whose_beginnings_are_shared(tmp_path: Path, architecture: str):
    found = card(model_folder(tmp_path, QWEN3 | {"architectures": [architecture]}, files=LAST))
    assert (found.pooling, found.causal, found.shares_prefixes) == ("LAST", True, True)
    assert found.tasks == ("rerank", "score", "embed")


def test_encoders_share_no_beginnings(tmp_path: Path):
    assert not card(model_folder(tmp_path, BERT, files=LAST)).shares_prefixes


def test_a_language_model_that_does_not_say_how_to_pool_is_no_embedder(tmp_path: Path):
    folder = model_folder(tmp_path, QWEN3)
    assert "nothing says how this Qwen3ForCausalLM scores" in refusal(folder)
    assert card(folder, args={"pooler_config": {"seq_pooling_type": "LAST"}}).pooling == "LAST"


@pytest.mark.parametrize(
    ("config", "files", "says"),
    [
        ({"is_causal": False}, {}, "see both sides"),
        ({"use_bidirectional_attention": True}, {}, "see both sides"),
        ({"auto_map": {"AutoModel": "modeling.Model"}}, {}, "auto_map"),
        ({}, {"1_Pooling/config.json": {"pooling_mode": "cls"}}, "first token"),
    ],
)
def test_a_decoder_that_vllm_computes_otherwise_than_its_authors_is_refused(
    tmp_path: Path, config: dict, files: dict, says: str
):
    assert says in refusal(model_folder(tmp_path, QWEN3 | config, files=LAST | files))


def test_prompts_are_those_that_are_set_where_the_files_state_others_or_none(tmp_path: Path):
    files = MEAN | {"config_sentence_transformers.json": {"prompts": {"query": "q: ", "passage": "p: "}}}
    stated = model_folder(tmp_path / "stated", BERT, files=files)
    found = card(stated, query_prompt="", document_prompt="d: ")
    assert (found.query_prompt, found.document_prompt) == ("", "d: ")
    assert card(stated, query_prompt="ask: ").document_prompt == "p: "
    none = model_folder(tmp_path / "none", BERT, files=MEAN)
    assert card(none, query_prompt="ask: ").query_prompt == "ask: "
    assert card(none, query_prompt="ask: ").fingerprint != card(none).fingerprint


@pytest.mark.parametrize("name", ["query_prompt", "document_prompt"])
def test_a_model_that_is_no_embedder_takes_no_prompt_by_role(tmp_path: Path, name: str):
    folder = model_folder(tmp_path, HEAD | {"id2label": {"0": "r"}}, {"classifier.weight": (1, 4)})
    assert f"engine.{name}" in refusal(folder, **{name: "ask: "})


def test_models_of_the_hub_that_state_no_prompts_get_their_authors_and_a_folder_of_that_name_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = model_folder(tmp_path / "intfloat" / "multilingual-e5-base", BERT, files=MEAN)
    assert card(folder).query_prompt == ""
    hub = ModelFiles("intfloat/multilingual-e5-base", folder, commit="abc")
    monkeypatch.setattr(recognition, "locate", lambda model, revision: hub)
    assert (card(folder).query_prompt, card(folder).document_prompt) == ("query: ", "passage: ")
    assert card(folder, query_prompt="").query_prompt == ""


def test_prompts_that_are_left_out_of_the_mean_are_refused(tmp_path: Path):
    pooling = {"1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "include_prompt": False}}
    assert card(model_folder(tmp_path, BERT, files=MEAN | pooling)).pooling == "MEAN"
    prompts = {"config_sentence_transformers.json": {"prompts": {"query": "q: "}}}
    assert "include_prompt" in refusal(model_folder(tmp_path, BERT, files=MEAN | pooling | prompts))


def with_dense(folder: Path, config: dict[str, Any], weights: dict[str, tuple[int, ...]], *kinds: str) -> Path:
    kinds = kinds or ("Transformer", "Pooling", "Dense", "Normalize")
    modules = [{"path": f"{at}_{kind}" if at else "", "type": TYPE + kind} for at, kind in enumerate(kinds)]
    model_folder(folder, BERT, files=MEAN | {"modules.json": modules, "2_Dense/config.json": config})
    write_safetensors(folder / "2_Dense" / "model.safetensors", weights)
    return folder


def test_a_dense_module_decides_how_long_a_vector_is_and_is_part_of_the_fingerprint(tmp_path: Path):
    folder = with_dense(tmp_path, DENSE, {"linear.weight": (3, 4)})
    found = card(folder)
    assert (found.hidden_size, found.dense_modules) == (3, 1)
    write_safetensors(folder / "2_Dense" / "model.safetensors", {"linear.weight": (3, 4)}, fill=b"\1")
    assert card(folder).fingerprint != found.fingerprint


@pytest.mark.parametrize(
    ("config", "weights", "says"),
    [
        (DENSE | {"in_features": 5}, {"linear.weight": (3, 5)}, "4 come in"),
        (DENSE, {"linear.weight": (4, 3)}, "its weights are"),
        (DENSE, {"linear.weight": (3, 4), "linear.bias": (3,)}, "bias"),
        (DENSE | {"bias": True}, {"linear.weight": (3, 4)}, "bias"),
        (
            DENSE | {"activation_function": "torch.nn.Softplus"},
            {"linear.weight": (3, 4)},
            "Softplus",
        ),
        ({**DENSE, "activation_function": None}, {"linear.weight": (3, 4)}, "activation"),
        (DENSE | {"use_residual": True}, {"linear.weight": (3, 4)}, "use_residual"),
    ],
)
def test_a_dense_module_that_vllm_would_stumble_over_is_refused(tmp_path: Path, config: dict, weights: dict, says: str):
    assert says in refusal(with_dense(tmp_path, config, weights))


def test_a_dense_module_without_safetensors_is_refused_because_vllm_would_go_on_without_it(tmp_path: Path):
    folder = with_dense(tmp_path, DENSE, {"linear.weight": (3, 4)})
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    assert "2_Dense/: it has no *.safetensors" in refusal(folder)


@pytest.mark.parametrize("weights", [{"linear.weight": (3, 4), "weight": (3, 4)}, {"linear.weight": (3, 4)}])
def test_a_dense_module_is_refused_whose_weights_vllm_would_not_find_or_take_from_another_name(
    tmp_path: Path, weights: dict
):
    folder = with_dense(tmp_path, DENSE, weights)
    if "weight" not in weights:
        (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "dense.safetensors")
    assert "which is what vLLM reads" in refusal(folder)


@pytest.mark.parametrize(
    "kinds",
    [
        ("Transformer", "Pooling", "Dense", "LayerNorm"),
        ("Transformer", "Pooling", "Normalize", "Dense"),
        ("Transformer", "Dense", "Pooling"),
        ("WordEmbeddings", "Pooling"),
    ],
)
def test_modules_of_another_kind_or_order_are_refused_by_name(tmp_path: Path, kinds: tuple[str, ...]):
    assert "Pooling, Dense and Normalize, in this order" in refusal(
        with_dense(tmp_path, DENSE, {"linear.weight": (3, 4)}, *kinds)
    )


@pytest.mark.parametrize("stated", [[2, 5], [0, 4], ["4"], 4, [2.0]])
def test_lengths_that_a_vector_cannot_have_are_refused(tmp_path: Path, stated: Any):
    config = BERT | {"matryoshka_dimensions": stated}
    assert "matryoshka_dimensions" in refusal(model_folder(tmp_path, config, files=MEAN))
