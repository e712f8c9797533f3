"""Embedders of every pooling, with the vectors that transformers and the layout of sentence-transformers give."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from schemas.request import EmbedRequest
from tests.models import embedders
from tests.parity.kinds import TEXTS, Kind, documents, vector

POOLINGS: dict[str, Callable[[Any], Any]] = {
    "cls_token": lambda states: states[0],
    "mean_tokens": lambda states: states.mean(dim=0),
    "lasttoken": lambda states: states[-1],
}


def vectors(folder: Path, texts: Sequence[str], prompt: str = "", max_tokens: int = 512) -> np.ndarray:
    """[texts, n], not normalised, by the folder's own 1_Pooling and Dense modules; `prompt` is put before each text."""
    import torch  # noqa: PLC0415 - seconds to import, and collecting the tests must not
    from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = AutoModel.from_pretrained(str(folder), dtype=torch.float32).eval()
    stated = json.loads((folder / "1_Pooling" / "config.json").read_text())
    (pool,) = [POOLINGS[key.removeprefix("pooling_mode_")] for key in stated if key.startswith("pooling_mode_")]
    found = []
    with torch.inference_mode():
        for text in texts:
            tokens = tokenizer(prompt + text, truncation=True, max_length=max_tokens, return_tensors="pt")
            found.append(projected(folder, pool(model(**tokens).last_hidden_state[0])).numpy())
    return np.stack(found)


def projected(folder: Path, vector: Any) -> Any:
    """What the folder's Dense modules make of a vector, or of each of several."""
    from safetensors.torch import load_file  # noqa: PLC0415
    from torch.nn import functional  # noqa: PLC0415

    for module in sorted(folder.glob("*_Dense")):
        weights = load_file(module / "model.safetensors")
        vector = functional.linear(vector, weights["linear.weight"], weights.get("linear.bias"))
        if "Tanh" in (module / "config.json").read_text():
            vector = vector.tanh()
    return vector


def embedder(
    name: str, folder: Callable[[], Path], role: Literal["query", "document"] = "document", prompt: str = ""
) -> Kind:
    def embed(rows: Sequence[int]) -> EmbedRequest:
        return EmbedRequest(id="e", task="embed", inputs=documents(rows), normalize=False, role=role)

    return Kind(name, folder, embed, vector, lambda model: vectors(model, TEXTS, prompt))


def decoder(family: str) -> Kind:
    return embedder(f"embedding, {family}, last", lambda: embedders.decoder(family))


EMBEDDERS = [
    embedder("embedding, XLM-R, cls, passage prompt", embedders.xlm_roberta, "document", "passage: "),
    embedder("embedding, RoBERTa, mean", embedders.roberta),
    embedder("embedding, ModernBERT, mean", embedders.modern_bert),
    embedder("embedding, ModernBERT, mean, two Dense", embedders.dense),
    embedder("embedding, Qwen3, last, instructed query", embedders.qwen3, "query", embedders.QUERY_PROMPT),
    decoder("Qwen2"),
    decoder("Qwen3"),
    decoder("Llama"),
]
