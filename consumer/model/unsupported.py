"""What to say of a model that no family knows: its architecture is not supported, and what it is, where that shows."""

from __future__ import annotations

from collections.abc import Iterable

from consumer.model.candidate import Candidate

_SEES_OR_HEARS = ("vision_config", "audio_config", "visual", "img_processor", "vision_tower")
"""Parts of a config.json that only models of images or of sound have."""
_OTHERWISE = "An IO processor of your own can read any model that vLLM runs: docs/write-your-own.md"


def not_supported(candidate: Candidate, known: Iterable[str]) -> str:
    """`known`: architectures that are supported. One of them is here only where its files do not say how it scores."""
    architecture, supported = candidate.architecture, list(dict.fromkeys(known))
    if architecture in supported:
        return (
            f"nothing says how this {architecture} scores: it is a decoder without a scoring head; one that is a "
            "reranker needs its prompt: set engine.reranker.template; one that is an embedder needs its pooling: "
            "1_Pooling/config.json, or engine.args.pooler_config"
        )
    what = _what_it_is(candidate)
    return (
        f"this architecture is not supported: {architecture}{f' ({what})' if what else ''}. Supported are "
        f"{', '.join(supported)}: docs/models.md. {_OTHERWISE}"
    )


def _what_it_is(candidate: Candidate) -> str:
    architecture, config = candidate.architecture, candidate.config
    if any(config.get(part) for part in _SEES_OR_HEARS):
        return "it takes images or sound; only texts are scored"
    if config.get("is_encoder_decoder"):
        return "it is an encoder-decoder"
    if architecture.endswith("RewardModel"):
        return (
            "a reward per token or step, which no task answers; reward models with one label on the last token are "
            "scored by their prompt, with raw_scores"
        )
    if config.get("auto_map"):
        return "its files bring code of their own (auto_map), which is not run"
    if architecture.endswith("ForMaskedLM"):
        return "it fills in words; there is no head that scores"
    return ""
