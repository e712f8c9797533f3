"""A model of which a weight is missing is refused before it is loaded, for every kind there is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import SettingsInvalid
from consumer.loading import load_model
from consumer.model.files import ModelFiles
from consumer.model.recognise import recognise
from consumer.model.weight_files import INDEX, Shape
from consumer.model.weights import Needed, needed_weights
from consumer.sections import EngineSettings
from tests.models import decoders, minilm
from tests.parity.every_kind import EVERY_KIND
from tests.parity.kinds import Kind

INTERMEDIATE = "encoder.layer.5.intermediate.dense.weight"
BY_NAME = {kind.name: kind for kind in EVERY_KIND}
PREFIXES = ("bert.", "roberta.", "model.")


def settings(folder: Path, **given: Any) -> EngineSettings:
    return EngineSettings(model=str(folder), **given)


@cache
def judged(name: str) -> tuple[Needed, Mapping[str, Shape]]:
    """What is asked of a kind's model, and what its files hold."""
    kind = BY_NAME[name]
    folder = kind.folder()
    files = ModelFiles(str(folder), folder, None)
    needed = needed_weights(recognise(settings(folder, **kind.settings)), files.config())
    assert needed is not None
    return needed, files.tensor_shapes()


def bare(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), name)


def transformers_would_make_up(kind: Kind, empty: Path) -> set[str]:
    """Names, without their prefix, of what transformers fills with random numbers when a checkpoint has nothing."""
    import torch  # noqa: PLC0415 - seconds to import, and collecting the tests must not
    import transformers  # noqa: PLC0415
    from safetensors.torch import save_file  # noqa: PLC0415

    folder = kind.folder()
    shutil.copyfile(folder / "config.json", empty / "config.json")
    save_file({"nothing": torch.zeros(1)}, empty / "model.safetensors", {"format": "pt"})
    architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
    vectors = kind.name.startswith(("embedding", "late interaction"))
    loader = transformers.AutoModel if vectors else getattr(transformers, architecture)
    _, info = loader.from_pretrained(str(empty), output_loading_info=True)
    return {bare(name) for name in info["missing_keys"] if not (vectors and name.startswith("pooler."))}


@pytest.mark.parametrize("name", BY_NAME)
def test_an_intact_model_is_taken_and_one_without_any_weight_that_transformers_would_make_up_is_not(
    name: str, tmp_path: Path
) -> None:
    kind = BY_NAME[name]
    needed, found = judged(name)
    assert needed.problem(found) is None
    made_up = transformers_would_make_up(kind, tmp_path)
    assert made_up <= {bare(tensor) for tensor in found} | {"lm_head.weight"}
    for dropped in found:
        problem = needed.problem({tensor: shape for tensor, shape in found.items() if tensor != dropped})
        assert (problem is not None) == (bare(dropped) in made_up), dropped
        assert problem is None or dropped in problem


@pytest.mark.parametrize("name", BY_NAME)
def test_a_weight_of_another_shape_is_refused(name: str) -> None:
    needed, found = judged(name)
    first = max(found, key=lambda tensor: (tensor.endswith("weight"), "embed" in tensor and "pooler" not in tensor))
    problem = needed.problem({**found, first: (*found[first][:-1], found[first][-1] + 1)})
    assert problem is not None
    assert f"its {first} is of shape" in problem


@pytest.mark.parametrize("name", BY_NAME)
def test_weights_whose_names_all_begin_with_something_else_are_refused(name: str) -> None:
    needed, found = judged(name)
    assert "lack" in (needed.problem({f"other.{tensor}": shape for tensor, shape in found.items()}) or "")


def renamed(kind: str, old: str, new: str) -> str | None:
    needed, found = judged(kind)
    return needed.problem({tensor.replace(old, new): shape for tensor, shape in found.items()})


def test_common_spellings_of_checkpoints_are_taken() -> None:
    needed, found = judged("embedding, mean")
    assert needed.problem({name: shape for name, shape in found.items() if "pooler" not in name}) is None
    assert needed.problem({**found, "cls.predictions.bias": (30522,), "lm_head.bias": (30522,)}) is None
    assert renamed("embedding, mean", "LayerNorm.weight", "LayerNorm.gamma") is None
    assert renamed("embedding, mean", "LayerNorm.bias", "LayerNorm.beta") is None
    for kind in ("embedding, XLM-R, cls, passage prompt", "embedding, RoBERTa, mean"):
        needed, found = judged(kind)
        with_head = {f"roberta.{name}": shape for name, shape in found.items()} | {"lm_head.bias": (1,)}
        assert needed.problem(with_head) is None
    needed, found = judged("embedding, ModernBERT, mean")
    assert needed.problem({f"model.{name}": shape for name, shape in found.items()}) is None
    needed, found = judged("embedding, Qwen3, last")
    assert needed.problem({f"model.{name}": shape for name, shape in found.items()}) is None
    tied = "decoder reranker, Qwen3 as published"
    assert "lm_head.weight" not in judged(tied)[1]
    assert judged(tied)[0].problem({**judged(tied)[1], "lm_head.weight": (1, 1)}) is None


def test_a_prefix_that_vllm_drops_without_a_word_is_refused() -> None:
    assert "lack" in (renamed("cross-encoder, ModernBERT, cls", "model.", "") or "")
    assert "lack" in (renamed("cross-encoder, BERT", "bert.", "") or "")


def test_packed_weights_of_a_quantised_model_count() -> None:
    folder = decoders.with_head("Qwen3")
    files = ModelFiles(str(folder), folder, None)
    card = recognise(settings(folder, reranker={"template": "qwen3"}))
    config = files.config() | {"quantization_config": {"quant_method": "gptq", "bits": 4}}
    needed = needed_weights(card, config)
    assert needed is not None
    packed = {tensor.replace("_proj.weight", "_proj.qweight"): shape for tensor, shape in files.tensor_shapes().items()}
    assert needed.problem(packed) is None
    dropped = "model.layers.1.mlp.up_proj.qweight"
    assert "up_proj.weight" in (needed.problem({name: packed[name] for name in packed if name != dropped}) or "")
    # Not quantised, they are nothing that vLLM would load.
    plain = needed_weights(card, files.config())
    assert plain is not None
    assert plain.problem(packed)


def without(source: Path, target: Path, *dropped: str) -> Path:
    """A copy of the model without these tensors."""
    from safetensors.numpy import load_file, save_file  # noqa: PLC0415

    shutil.copytree(source, target)
    kept = {
        name: value for name, value in load_file(source / "model.safetensors").items() if not name.startswith(dropped)
    }
    save_file(kept, target / "model.safetensors", {"format": "pt"})
    return target


def sharded(source: Path, target: Path) -> Path:
    """A copy of the model in two shards, with their index."""
    from safetensors.numpy import load_file, save_file  # noqa: PLC0415

    shutil.copytree(source, target)
    tensors = load_file(source / "model.safetensors")
    (target / "model.safetensors").unlink()
    names = sorted(tensors)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, target / file, {"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    (target / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return target


def refusal(folder: Path, **given: Any) -> str:
    with pytest.raises(SettingsInvalid) as caught:
        load_model(settings(folder, **given))
    return str(caught.value)


def test_a_worker_does_not_load_minilm_without_one_of_its_weights(tmp_path: Path) -> None:
    embedder = minilm.minilm_embed()
    said = refusal(without(embedder, tmp_path / "m", INTERMEDIATE))
    assert said.startswith(f"engine.model is {tmp_path / 'm'}: its weights lack {INTERMEDIATE} (1 of the 101 tensors")
    assert "download or save the model again" in said
    assert "encoder.layer.2." in refusal(without(embedder, tmp_path / "layer", "encoder.layer.2."))
    assert "pooler.dense.bias" in refusal(without(minilm.minilm_cross_encoder(), tmp_path / "c", "bert.pooler.dense.b"))
    assert load_model(settings(without(embedder, tmp_path / "spare", "pooler.", "embeddings.position_ids")))


def test_a_sharded_model_is_taken_and_one_without_a_shard_or_with_a_wrong_index_is_not(tmp_path: Path) -> None:
    folder = sharded(minilm.minilm_embed(), tmp_path / "m")
    assert load_model(settings(folder))
    index = json.loads((folder / INDEX).read_text())
    second = folder / "model-00002-of-00002.safetensors"

    index["weight_map"]["embeddings.elsewhere"] = second.name
    (folder / INDEX).write_text(json.dumps(index))
    assert f"says that {second.name} holds embeddings.elsewhere, and it does not" in refusal(folder)

    del index["weight_map"]["embeddings.elsewhere"]
    (folder / INDEX).write_text(json.dumps(index))
    content = second.read_bytes()
    second.unlink()
    assert f"{INDEX} names {second.name}, which is not there" in refusal(folder)

    (folder / INDEX).unlink()
    assert "its weights lack" in refusal(folder)

    second.write_bytes(content[:-1000])
    assert f"{second.name} has {len(content) - 1000} bytes, its header speaks of {len(content)}" in refusal(folder)


def test_files_that_vllm_and_transformers_would_read_otherwise_are_refused(tmp_path: Path) -> None:
    folder = sharded(minilm.minilm_embed(), tmp_path / "both")
    shutil.copyfile(minilm.minilm_embed() / "model.safetensors", folder / "model.safetensors")
    assert "remove the one that is not to be read" in refusal(folder)
    (folder / INDEX).unlink()
    assert "both hold embeddings" in refusal(folder)
    (folder / INDEX).write_text('{"weight_map": {"a": "../model.safetensors"}}')
    assert f"{INDEX} cannot be used" in refusal(folder)


def test_an_adapter_beside_the_weights_is_refused(tmp_path: Path) -> None:
    shutil.copytree(minilm.minilm_embed(), tmp_path / "m")
    (tmp_path / "m" / "adapter_config.json").write_text("{}")
    assert "it has an adapter (adapter_config.json): merge it" in refusal(tmp_path / "m")
    (tmp_path / "m" / "adapter_config.json").rename(tmp_path / "m" / "adapter_model.safetensors")
    assert "it has an adapter (adapter_model.safetensors): merge it" in refusal(tmp_path / "m")


def test_a_config_that_transformers_cannot_build_is_refused(tmp_path: Path) -> None:
    shutil.copytree(minilm.minilm_embed(), tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text()) | {"num_attention_heads": 7}
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    assert "cannot build it" in refusal(tmp_path / "m")


def test_random_weights_are_refused() -> None:
    said = refusal(minilm.minilm_embed(), args={"load_format": "dummy"})
    assert said == "engine.args.load_format is dummy: remove it, because its scores are random"


def test_a_value_of_a_wrong_type_is_a_refusal_that_names_the_model(tmp_path: Path) -> None:
    folder = shutil.copytree(minilm.minilm_embed(), tmp_path / "m")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": "256"}')
    assert refusal(folder).startswith(f"engine.model is {folder}: one of its JSON files has a value of a wrong type")
