"""Heads of several labels, on encoders and on decoders, with the logits that transformers gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.models import decoders, minilm
from tests.parity import reference
from tests.parity.kinds import TEXTS, Kind, classify, labels


def logits(folder: Path) -> np.ndarray:
    return reference.logits(folder, [(text, None) for text in TEXTS], 512)


def classifier(name: str, folder: Callable[[], Path]) -> Kind:
    return Kind(f"classifier, {name}", folder, classify, labels, logits)


HEADS = [
    classifier("BERT, five labels, multi-label", minilm.minilm_multi_label),
    classifier("Qwen3, three labels", lambda: decoders.with_head("Qwen3", labels=3)),
    classifier("Qwen2, three labels", lambda: decoders.with_head("Qwen2", labels=3)),
    classifier("Llama, three labels", lambda: decoders.with_head("Llama", labels=3)),
    classifier("Gemma, three labels", lambda: decoders.with_head("Gemma", labels=3)),
]
