"""What vLLM refuses, or would die of, is found by its own configuration of the engine, without an engine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from consumer import check
from consumer.settings import load_settings
from consumer.startup import Finding
from tests.models import decoders, embedders


def found(folder: Path, **settings: Any) -> dict[str, Finding]:
    settings = {f"engine.{name}": value for name, value in settings.items()}
    return {
        finding.name: finding for finding in check.check_model(load_settings({"engine.model": str(folder)} | settings))
    }


def changed(source: Path, target: Path, **config: Any) -> Path:
    shutil.copytree(source, target)
    stated = json.loads((target / "config.json").read_text()) | config
    (target / "config.json").write_text(json.dumps(stated))
    return target


def test_a_model_that_would_start_is_said_to_with_dtype_and_device(minilm_embed: Path) -> None:
    findings = found(minilm_embed, dtype="float32")
    assert all(finding.ok for finding in findings.values())
    assert findings["engine.vllm"].found.endswith(", float32 on cpu")


def test_a_quantised_model_in_float32_is_refused_with_the_dtypes_that_it_takes(tmp_path: Path) -> None:
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}
    folder = changed(embedders.decoder("Qwen3"), tmp_path / "m", quantization_config=gptq)
    refused = found(folder, dtype="float32")["engine.vllm"]
    assert not refused.ok
    assert "torch.float16" in refused.found
    assert refused.found.endswith("set engine.dtype to one of these")


def test_heads_that_the_cpu_does_not_compute_are_refused(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 - seconds to import, and collecting the tests must not
    import transformers  # noqa: PLC0415

    folder = changed(embedders.decoder("Qwen3"), tmp_path / "m", head_dim=16)
    torch.manual_seed(decoders.SEED)
    transformers.Qwen3Model(transformers.AutoConfig.from_pretrained(str(folder))).save_pretrained(folder)
    refused = found(folder, dtype="float32")["engine.vllm"]
    assert not refused.ok
    assert "heads of 16 numbers" in refused.found
    assert refused.found.endswith("run it on a GPU")


def test_an_argument_that_vllm_refuses_is_in_its_words_and_no_more(minilm_embed: Path) -> None:
    refused = found(minilm_embed, args={"quantization": "nonsense"})["engine.vllm"]
    assert not refused.ok
    assert "Unknown quantization method: nonsense" in refused.found
    assert "pydantic" not in refused.found


def test_where_there_is_nothing_to_run_on_the_check_says_what_it_did_not_look_at(
    minilm_embed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from consumer.adapters import vllm_versions  # noqa: PLC0415 - imports vLLM

    monkeypatch.setattr(vllm_versions, "device_type", lambda: "")
    finding = found(minilm_embed)["engine.vllm"]
    assert (finding.ok, finding.fix) == (True, "check where the worker will run, too")
