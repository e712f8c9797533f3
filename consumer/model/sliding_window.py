"""Attention that sees only the last so many tokens: vLLM has one window for a decoder's layers, or none.

transformers may have it on some layers, of which vLLM dies, or, in a Llama, on none although config.json gives its
size, which vLLM goes by. Where a window changes nothing, because no layer has it or no text is longer, it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SLIDING, _FULL = "sliding_attention", "full_attention"
_WITH_WINDOW = ("Qwen2", "Qwen3")
_WITHOUT_WINDOW = ("Llama", "Gemma")
"""For transformers; vLLM goes by config.json."""
_DEFAULT_WINDOW_TOKENS, _DEFAULT_FIRST_LAYER = 4096, 28
"""transformers' own, of both kinds of Qwen."""


def window_overrides(architecture: str, config: Mapping[str, Any], usable_tokens: int) -> dict[str, Any]:
    """What the engine must read in place of config.json, so that it computes what transformers does.

    Raises ValueError, with the fix, where vLLM cannot.
    """
    layers = int(config.get("num_hidden_layers", 0))
    kinds = config.get("layer_types")
    if architecture.startswith(_WITHOUT_WINDOW):
        window, kinds = None, kinds or []
        harmless = not config.get("sliding_window") and _SLIDING not in kinds
    elif architecture.startswith(_WITH_WINDOW):
        window = config.get("sliding_window", _DEFAULT_WINDOW_TOKENS) if config.get("use_sliding_window") else None
        first = config.get("max_window_layers", _DEFAULT_FIRST_LAYER) if window else layers
        kinds = kinds or [_SLIDING if layer >= first else _FULL for layer in range(layers)]
        harmless = set(kinds) == {_SLIDING} if window else _SLIDING not in kinds
    else:
        return {}
    if harmless:
        return {}
    if window and _SLIDING in kinds and usable_tokens > window:
        raise ValueError(
            f"{kinds.count(_SLIDING)} of its {layers} layers see only the last {window} tokens, which vLLM does for "
            f"all layers or none: set engine.max_model_len to at most {window}, up to which it makes no difference"
        )
    return {"use_sliding_window": False, "sliding_window": None, "layer_types": [_FULL] * layers}
