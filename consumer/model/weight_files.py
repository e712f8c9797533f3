"""The weight files of a folder: which of them vLLM reads, and what their headers say. No weight is read.

vLLM reads every *.safetensors file of the folder, or, where there is an index, those that it names; transformers reads
model.safetensors before it looks for an index. Where the two would read different numbers the files are refused.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from consumer.errors import WeightsUnusable

INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_MAX_HEADER_BYTES = 100_000_000
"""The safetensors format's own limit of a header."""
_AGAIN = "download or save the model again"

Shape = tuple[int, ...]


def tensor_shapes(folder: Path) -> dict[str, Shape]:
    """Every tensor's shape, by its name in the files. Raises WeightsUnusable, with the fix."""
    index = _index(folder)
    shapes: dict[str, Shape] = {}
    origin: dict[str, str] = {}
    for path in _files(folder, index):
        of_file = _header(path)
        if twice := sorted(of_file.keys() & shapes.keys()):
            raise WeightsUnusable(
                f"{path.name} and {origin[twice[0]]} both hold {twice[0]}, and vLLM would take either: remove the one "
                "that is not to be read"
            )
        shapes |= of_file
        origin |= dict.fromkeys(of_file, path.name)
    if absent := sorted(name for name, file in index.items() if origin.get(name) != file):
        raise WeightsUnusable(
            f"{INDEX} says that {index[absent[0]]} holds {absent[0]}, and it does not ({len(absent)} such tensors): "
            f"{_AGAIN}"
        )
    return shapes


def _index(folder: Path) -> Mapping[str, str]:
    """Tensor -> file; empty where there is no index."""
    path = folder / INDEX
    if not path.is_file():
        return {}
    try:
        stated: Any = json.loads(path.read_bytes())
        of_tensors: Any = stated["weight_map"]
        beside = [file for file in of_tensors.values() if Path(file).name == file]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as unreadable:
        raise WeightsUnusable(f"{INDEX} cannot be read: {unreadable}: {_AGAIN}") from unreadable
    if len(beside) != len(of_tensors) or not beside:
        raise WeightsUnusable(f"{INDEX} cannot be used: its weight_map names no files, or files elsewhere: {_AGAIN}")
    return dict(of_tensors)


def _files(folder: Path, index: Mapping[str, str]) -> list[Path]:
    files = sorted(folder.glob("*.safetensors"))
    if not index:
        if not files:
            raise WeightsUnusable("it has no *.safetensors: convert its weights, pickled ones are not read")
        return files
    shards = sorted(set(index.values()))
    if absent := [name for name in shards if not (folder / name).is_file()]:
        raise WeightsUnusable(f"{INDEX} names {absent[0]}, which is not there ({len(absent)} missing): {_AGAIN}")
    if _SINGLE not in shards and folder / _SINGLE in files:
        raise WeightsUnusable(
            f"it has {_SINGLE} and {INDEX}: transformers reads the one and vLLM the files that the other names; remove "
            "the one that is not to be read"
        )
    return [folder / name for name in shards]


def _header(path: Path) -> dict[str, Shape]:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _MAX_HEADER_BYTES:
                raise WeightsUnusable(f"{path.name} is not a safetensors file")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        shapes = {name: tuple(tensor["shape"]) for name, tensor in header.items()}
        end = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, struct.error) as unreadable:
        raise WeightsUnusable(f"{path.name} cannot be read: {unreadable}") from unreadable
    if size != 8 + length + end:
        raise WeightsUnusable(f"{path.name} has {size} bytes, its header speaks of {8 + length + end}: {_AGAIN}")
    return shapes
