"""Releases of vLLM that would score silently wrong are refused."""

from pathlib import Path
from types import ModuleType

import pytest

from consumer.errors import SettingsInvalid
from consumer.model.recognise import recognise
from consumer.sections import EngineSettings, RerankerSettings
from tests.models.decoders import with_head


@pytest.fixture(scope="module")
def vllm_versions() -> ModuleType:
    """Imported when the first test runs: it takes seconds, and collecting the tests must not."""
    from consumer.adapters import vllm_versions  # noqa: PLC0415

    return vllm_versions


@pytest.mark.parametrize("release", ["0.26.0", "0.31.1+cu130"])
def test_a_head_behind_layers_that_this_release_leaves_out_is_refused(
    vllm_versions: ModuleType, minilm_cross_encoder: Path, monkeypatch: pytest.MonkeyPatch, release: str
):
    settings = EngineSettings(model=str(minilm_cross_encoder))
    monkeypatch.setattr(vllm_versions.vllm, "__version__", release)
    with pytest.raises(SettingsInvalid, match=r"BertForSequenceClassification: install vLLM 0\.32"):
        vllm_versions.engine_arguments(settings, recognise(settings))


@pytest.mark.parametrize("release", ["0.32.0+cpu", "0.33.1"])
def test_later_releases_are_taken(
    vllm_versions: ModuleType, minilm_cross_encoder: Path, monkeypatch: pytest.MonkeyPatch, release: str
):
    settings = EngineSettings(model=str(minilm_cross_encoder))
    monkeypatch.setattr(vllm_versions.vllm, "__version__", release)
    assert vllm_versions.engine_arguments(settings, recognise(settings))["runner"] == "pooling"


def test_an_embedding_model_has_no_such_head(
    vllm_versions: ModuleType, minilm_embed: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = EngineSettings(model=str(minilm_embed))
    monkeypatch.setattr(vllm_versions.vllm, "__version__", "0.26.0")
    assert vllm_versions.engine_arguments(settings, recognise(settings))["runner"] == "pooling"


@pytest.mark.parametrize("wanted", [True, False])
def test_common_beginnings_are_computed_once_where_the_model_allows_it_and_settings_do_not_forbid_it(
    vllm_versions: ModuleType, minilm_embed: Path, wanted: bool
):
    reranker = RerankerSettings(template="{query}<|im_end|>{document}")
    decoder = EngineSettings(model=str(with_head("Qwen3")), reranker=reranker, prefix_caching=wanted)
    encoder = EngineSettings(model=str(minilm_embed), prefix_caching=wanted)
    chosen = [vllm_versions.engine_arguments(one, recognise(one)) for one in (decoder, encoder)]
    assert [one["enable_prefix_caching"] for one in chosen] == [wanted, False]
    forbidden = encoder.model_copy(update={"args": {"enable_prefix_caching": True}})
    with pytest.raises(SettingsInvalid, match=r"set engine\.prefix_caching"):
        vllm_versions.engine_arguments(forbidden, recognise(forbidden))
