"""Late interaction, with the MaxSim that transformers' token vectors give."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schemas.request import RerankRequest
from tests.models import late_interaction
from tests.parity.embedders import projected
from tests.parity.kinds import TEXTS, Kind, documents, score

QUERY = "what is the capital of france?"


def rerank(rows: Sequence[int]) -> RerankRequest:
    return RerankRequest(id="r", task="rerank", query=QUERY, documents=documents(rows))


def colbert(folder: Path) -> np.ndarray:
    """[64, 1]. The encoder of an HF_ColBERT is a BertModel; what else there is, is its linear.weight."""
    import torch  # noqa: PLC0415 - seconds to import, and collecting the tests must not
    from safetensors.torch import load_file  # noqa: PLC0415
    from transformers import AutoConfig, AutoTokenizer, BertModel  # noqa: PLC0415

    weights = load_file(folder / "model.safetensors")
    projection = weights.pop("linear.weight")
    body = BertModel(AutoConfig.from_pretrained(str(folder))).eval()
    loaded = body.load_state_dict({name.removeprefix("bert."): value for name, value in weights.items()}, strict=False)
    assert not loaded.unexpected_keys
    assert not loaded.missing_keys
    tokenizer = AutoTokenizer.from_pretrained(str(folder))

    def ids(text: str, marker: str, most: int) -> list[int]:
        start, *rest = tokenizer(text, truncation=True, max_length=most - 1)["input_ids"]
        return [start, tokenizer.convert_tokens_to_ids(marker), *rest]

    def states(tokens: list[int]) -> Any:
        return body(input_ids=torch.tensor([tokens])).last_hidden_state[0] @ projection.T

    query = ids(QUERY, "[unused0]", late_interaction.QUERY_TOKENS)
    query += [tokenizer.mask_token_id] * (late_interaction.QUERY_TOKENS - len(query))
    tokens = [ids(text, "[unused1]", late_interaction.DOCUMENT_TOKENS) for text in TEXTS]
    return _maxsims(query, tokens, states, {tokenizer.convert_tokens_to_ids(mark) for mark in string.punctuation})


def pylate(folder: Path) -> np.ndarray:
    """[64, 1]."""
    import torch  # noqa: PLC0415
    from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    body = AutoModel.from_pretrained(str(folder), dtype=torch.float32).eval()

    def ids(text: str, marker: str, most: int) -> list[int]:
        start, *rest = tokenizer(text, truncation=True, max_length=most - 1)["input_ids"]
        return [start, tokenizer.convert_tokens_to_ids(marker), *rest]

    def states(tokens: list[int]) -> Any:
        return projected(folder, body(input_ids=torch.tensor([tokens])).last_hidden_state[0])

    query = ids(QUERY, "[SEP]", late_interaction.QUERY_TOKENS)
    tokens = [ids(text, "[PAD]", late_interaction.DOCUMENT_TOKENS) for text in TEXTS]
    return _maxsims(query, tokens, states, {tokenizer.convert_tokens_to_ids(mark) for mark in ".,!"})


def _maxsims(
    query: list[int], documents: list[list[int]], states: Callable[[list[int]], Any], skipped: set[int]
) -> np.ndarray:
    import torch  # noqa: PLC0415
    from torch.nn.functional import normalize  # noqa: PLC0415

    with torch.inference_mode():
        asked = normalize(states(query), dim=1)
        scores = []
        for document in documents:
            vectors = normalize(states(document), dim=1)
            counted = vectors[torch.tensor([one not in skipped for one in document])]
            scores.append([float((asked @ counted.T).amax(dim=1).sum())])
    return np.array(scores, dtype=np.float32)


LATE_INTERACTION = [
    Kind("late interaction, ColBERT, filled queries", late_interaction.colbert, rerank, score, colbert),
    Kind("late interaction, PyLate on ModernBERT", late_interaction.pylate, rerank, score, pylate),
]
