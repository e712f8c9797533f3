"""Model folders with real headers and no weights worth the name: what recognition reads, and nothing else."""

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

BERT = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 4,
    "vocab_size": 30,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}
HEAD = BERT | {"architectures": ["BertForSequenceClassification"]}
MEAN = {"modules.json": [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]} | {
    "1_Pooling/config.json": {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
}


def write_safetensors(path: Path, shapes: Mapping[str, tuple[int, ...]], fill: bytes = b"\0") -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        size = 4 * prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + fill * end)


def model_folder(
    folder: Path,
    config: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    files: Mapping[str, Any] | None = None,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {"config.json": config, **(files or {})}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    write_safetensors(folder / "model.safetensors", {"embeddings.weight": (30, 4), **(shapes or {})})
    return folder
