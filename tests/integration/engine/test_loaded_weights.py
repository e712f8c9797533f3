"""What vLLM loaded is held against what its model has, whatever the files were taken for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from safetensors.numpy import load_file, save_file

from consumer.adapters.vllm_start import start_vllm
from consumer.errors import SettingsInvalid
from consumer.model.recognise import recognise
from consumer.sections import EngineSettings
from tests.models import decoders, embedders, encoders, minilm
from tests.parity.forked import forked_engines


def without(source: Path, target: Path, dropped: str, renamed: tuple[str, str] = ("", "")) -> Path:
    """A copy of the model without a tensor, or with other names of its tensors."""
    shutil.copytree(source, target)
    tensors = load_file(source / "model.safetensors")
    kept = {name.replace(*renamed, 1) if name.startswith(renamed[0]) else name: tensors[name] for name in tensors}
    if dropped:
        del kept[dropped]
    save_file(kept, target / "model.safetensors", {"format": "pt"})
    return target


@pytest.mark.parametrize(
    ("source", "dropped", "renamed", "named"),
    [
        (
            minilm.minilm_embed,
            "encoder.layer.5.intermediate.dense.weight",
            ("", ""),
            "layer.5.intermediate.dense.weight",
        ),
        # One of the three that vLLM puts together.
        (
            minilm.minilm_embed,
            "encoder.layer.2.attention.self.key.bias",
            ("", ""),
            "layer.2.attention.self.qkv_proj.bias",
        ),
        # Its loader does not say what it loaded.
        (lambda: encoders.modern_bert("cls"), "head.dense.weight", ("", ""), "pooling.dense.weight"),
        (lambda: encoders.modern_bert("cls"), "", ("model.", ""), "model.embeddings.tok_embeddings.weight"),
        (
            lambda: embedders.decoder("Qwen3"),
            "layers.1.mlp.up_proj.weight",
            ("", ""),
            "layers.1.mlp.gate_up_proj.weight",
        ),
        (lambda: decoders.with_head("Llama", labels=3), "model.layers.0.self_attn.o_proj.weight", ("", ""), "o_proj"),
    ],
    ids=["MiniLM", "part of one", "a head", "a prefix", "part of a decoder's", "a classifier"],
)
async def test_an_engine_whose_files_leave_a_weight_unset_is_refused_by_its_name(
    tmp_path: Path, source: Any, dropped: str, renamed: tuple[str, str], named: str
):
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # as tests.parity.loaded, for the process that is forked
    folder = without(source(), tmp_path / "m", dropped, renamed)
    settings = EngineSettings(model=str(folder), dtype="float32", max_num_seqs=64, args={"enforce_eager": True})
    with forked_engines(), pytest.raises(SettingsInvalid) as refused:
        await start_vllm(settings, recognise(settings))  # not load_model: it would refuse the files
    assert named in str(refused.value)
    assert "download or save the model again" in str(refused.value)


class Unwatched:
    """An engine whose processes have not loaded the plugin."""

    card = SimpleNamespace(name="m")

    async def weights_left_unset(self) -> Sequence[str]:
        raise AttributeError("weights_left_unset")


async def test_an_engine_that_was_not_watched_starts_and_the_log_says_so():
    from consumer.adapters.vllm_self_test import check_loaded  # noqa: PLC0415 - imports vLLM

    with structlog.testing.capture_logs() as lines:
        await check_loaded(Unwatched())  # type: ignore[arg-type]
    assert [line["reason"] for line in lines] == ["weights_left_unset"]


def test_only_what_has_to_come_from_the_files_is_made_nan():
    import torch  # noqa: PLC0415 - seconds to import, and collecting the tests must not

    from consumer.adapters.vllm_weights import has_nan, make_nan  # noqa: PLC0415

    class UnquantizedLinearMethod: ...

    class Fp8LinearMethod: ...

    def layer(method: Any) -> torch.nn.Linear:
        made = torch.nn.Linear(2, 2)
        made.quant_method = method
        return made

    model = torch.nn.ModuleDict(
        {
            "plain": layer(None),
            "linear": layer(UnquantizedLinearMethod()),
            "quantised": layer(Fp8LinearMethod()),
            "pooler": torch.nn.ModuleDict({"projector": torch.nn.Sequential(torch.nn.Linear(2, 2))}),
            "later": torch.nn.Linear(2, 2, device="meta"),
        }
    )
    made = {"plain.weight", "plain.bias", "linear.weight", "linear.bias"}
    assert set(make_nan(model)) == made
    model["linear"].weight.data[0] = 1.0
    assert {
        name for name, parameter in model.named_parameters() if not parameter.is_meta and has_nan(parameter)
    } == made
    model["linear"].weight.data[1] = 1.0
    assert not has_nan(model["linear"].weight)
    assert not has_nan(None)
