"""A window of attention is computed as transformers does, or the model is refused with the fix."""

from pathlib import Path
from typing import Any

import pytest

from consumer.errors import SettingsInvalid
from consumer.model.recognise import recognise
from consumer.model.sliding_window import window_overrides
from consumer.sections import EngineSettings
from tests.unit.model.folders import model_folder

FULL, SLIDING = "full_attention", "sliding_attention"
NO_WINDOW = {"use_sliding_window": False, "sliding_window": None, "layer_types": [FULL] * 4}
SOME = {"num_hidden_layers": 4, "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2}


@pytest.mark.parametrize(
    ("architecture", "config", "overrides"),
    [
        ("Qwen3Model", {"sliding_window": 64, "max_window_layers": 2}, {}),
        ("Qwen2ForSequenceClassification", {"use_sliding_window": False, "sliding_window": 64}, {}),
        ("Qwen3Model", SOME | {"max_window_layers": 0}, {}),
        ("Qwen3Model", SOME | {"layer_types": [SLIDING] * 4}, {}),
        # transformers has none of them.
        ("Qwen2Model", SOME | {"max_window_layers": 4}, NO_WINDOW),
        ("Qwen2Model", {"use_sliding_window": True}, NO_WINDOW),
        ("LlamaModel", {"sliding_window": 64}, NO_WINDOW),
        ("GemmaForCausalLM", {"layer_types": [FULL, SLIDING] * 2}, NO_WINDOW),
        # No window to speak of, and vLLM would not start.
        ("Qwen3Model", {"layer_types": [FULL, SLIDING] * 2}, NO_WINDOW),
        ("LlamaModel", {"sliding_window": None}, {}),
        ("ModernBertModel", {"sliding_window": 64, "layer_types": [FULL, SLIDING] * 2}, {}),
    ],
)
def test_the_engine_reads_what_transformers_computes(architecture: str, config: dict[str, Any], overrides: dict):
    assert window_overrides(architecture, {"num_hidden_layers": 4} | config, 4096 * 2) == overrides


@pytest.mark.parametrize("config", [SOME, SOME | {"layer_types": [FULL, FULL, FULL, SLIDING]}])
def test_a_window_on_some_layers_is_taken_only_for_texts_no_longer_than_it(config: dict[str, Any]):
    assert window_overrides("Qwen3Model", config, 64) == NO_WINDOW
    with pytest.raises(
        ValueError, match=r"layers see only the last 64 tokens.* set engine\.max_model_len to at most 64"
    ):
        window_overrides("Qwen3Model", config, 65)


def test_a_model_says_so_when_it_is_recognised(tmp_path: Path):
    config = {"architectures": ["Qwen3Model"], "model_type": "qwen3", "hidden_size": 4, "vocab_size": 30}
    pooling = {"1_Pooling/config.json": {"pooling_mode_lasttoken": True}}
    folder = model_folder(tmp_path, config | SOME | {"max_position_embeddings": 512}, files=pooling)
    with pytest.raises(SettingsInvalid, match=r"engine.model is .*: 2 of its 4 layers see only the last 64 tokens"):
        recognise(EngineSettings(model=str(folder)))
    assert recognise(EngineSettings(model=str(folder), max_model_len=64)).engine_overrides == NO_WINDOW
