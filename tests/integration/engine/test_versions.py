"""Releases of vLLM that would score silently wrong are refused."""

from pathlib import Path

import pytest

from consumer.adapters import vllm_versions
from consumer.errors import SettingsInvalid
from consumer.model.recognise import recognise
from consumer.sections import EngineSettings


@pytest.mark.parametrize("release", ["0.26.0", "0.31.1+cu130"])
def test_a_head_behind_layers_that_this_release_leaves_out_is_refused(
    minilm_cross_encoder: Path, monkeypatch: pytest.MonkeyPatch, release: str
):
    settings = EngineSettings(model=str(minilm_cross_encoder))
    monkeypatch.setattr(vllm_versions.vllm, "__version__", release)
    with pytest.raises(SettingsInvalid, match=r"BertForSequenceClassification: install vLLM 0\.32"):
        vllm_versions.engine_arguments(settings, recognise(settings))


@pytest.mark.parametrize("release", ["0.32.0+cpu", "0.33.1"])
def test_later_releases_are_taken(minilm_cross_encoder: Path, monkeypatch: pytest.MonkeyPatch, release: str):
    settings = EngineSettings(model=str(minilm_cross_encoder))
    monkeypatch.setattr(vllm_versions.vllm, "__version__", release)
    assert vllm_versions.engine_arguments(settings, recognise(settings))["runner"] == "pooling"


def test_an_embedding_model_has_no_such_head(minilm_embed: Path, monkeypatch: pytest.MonkeyPatch):
    settings = EngineSettings(model=str(minilm_embed))
    monkeypatch.setattr(vllm_versions.vllm, "__version__", "0.26.0")
    assert vllm_versions.engine_arguments(settings, recognise(settings))["runner"] == "pooling"
