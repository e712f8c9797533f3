"""Labels of tokens, with the logits and the offsets that transformers gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.models import token_classifiers
from tests.parity.kinds import TEXTS, Kind, classify, labels


def expected(folder: Path) -> np.ndarray:
    """[64, 14]: see `ends`."""
    import torch  # noqa: PLC0415 - seconds to import, and collecting the tests must not
    from transformers import AutoModelForTokenClassification, AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = AutoModelForTokenClassification.from_pretrained(str(folder), dtype=torch.float32).eval()
    by_name = [row for _, row in sorted((name, row) for row, name in model.config.id2label.items())]
    rows = []
    for text in TEXTS:
        encoded = tokenizer(text, truncation=True, max_length=512, return_offsets_mapping=True, return_tensors="pt")
        places = encoded.pop("offset_mapping")[0].tolist()
        with torch.inference_mode():
            logits = model(**encoded).logits[0, 1:-1][:, by_name].numpy()
        own = places[1:-1]
        rows.append([*logits[0], *logits[-1], len(own), *own[len(own) // 2], own[-1][1]])
    return np.array(rows, dtype=np.float32)


def ends(element: Mapping[str, Any]) -> Any:
    """The first and the last token's logits, how many there are, where the middle one is, where the last one ends."""
    tokens = element["tokens"]
    middle = tokens[len(tokens) // 2]
    places = [len(tokens), middle["start"], middle["end"], tokens[-1]["end"]]
    return [*labels(tokens[0]), *labels(tokens[-1]), *places]


def kind(name: str, folder: Callable[[], Path]) -> Kind:
    return Kind(f"token classifier, {name}", folder, classify, ends, expected)


TOKEN_CLASSIFIERS = [
    kind("BERT", token_classifiers.bert),
    kind("XLM-R", token_classifiers.xlm_roberta),
    kind("ModernBERT", token_classifiers.modern_bert),
]
