"""What a model's folder says about the model, read without loading it and without importing torch or vLLM.

The layout is Hugging Face's (config.json, tokenizer files, *.safetensors) with the files that sentence-transformers
adds: modules.json, 1_Pooling/config.json, sentence_bert_config.json, config_sentence_transformers.json.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consumer.errors import SettingsInvalid

_IDENTITY_GLOBS = (
    "config.json",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "*.model",
    "*.safetensors",
    "*_Dense/*",
)
_DOWNLOADED = ("*.json", "*.txt", "*.model", "*.safetensors", "artifact.metadata")
_NOT_DOWNLOADED = ("onnx/*", "openvino/*", "original/*")
_MAX_HEADER_BYTES = 100_000_000
"""The safetensors format's own limit of a header."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """One model's folder. `model` is the name as configured, for messages; `commit` the hub's commit, if from there."""

    model: str
    folder: Path
    commit: str | None

    def refuse(self, problem: str) -> SettingsInvalid:
        """The error that names the setting, its value and what is wrong with it."""
        return SettingsInvalid(f"engine.model is {self.model}: {problem}")

    def json(self, name: str) -> Any:
        """A JSON file's content, {} when there is no such file. Raises SettingsInvalid when it cannot be read."""
        path = self.folder / name
        if not path.is_file():
            return {}
        try:
            return json.loads(path.read_bytes())
        except (OSError, ValueError) as unreadable:
            raise self.refuse(f"{name} cannot be read: {unreadable}") from unreadable

    def config(self) -> dict[str, Any]:
        """config.json. Raises SettingsInvalid when it is missing or not an object."""
        config = self.json("config.json")
        if not isinstance(config, dict) or not config:
            raise self.refuse("it has no readable config.json: name a Hugging Face model or a folder in its layout")
        return config

    def tensor_shapes(self, subfolder: str = "") -> dict[str, tuple[int, ...]]:
        """Every tensor's shape, from the headers of the weight files of the model, or of one of its modules.

        Raises SettingsInvalid when there are no safetensors, or when one is damaged.
        """
        shapes: dict[str, tuple[int, ...]] = {}
        for path in self._weights(subfolder):
            try:
                with path.open("rb") as file:
                    (size,) = struct.unpack("<Q", file.read(8))
                    if size > _MAX_HEADER_BYTES:
                        raise self.refuse(f"{path.name} is not a safetensors file")
                    header = json.loads(file.read(size))
            except (OSError, ValueError, struct.error) as unreadable:
                raise self.refuse(f"{path.name} cannot be read: {unreadable}") from unreadable
            header.pop("__metadata__", None)
            shapes |= {name: tuple(tensor["shape"]) for name, tensor in header.items()}
        return shapes

    def digest(self) -> str:
        """SHA-256 over the bytes of weights, config and tokenizer: equal exactly for the same model.

        All bytes, because two fine-tunings of one model differ nowhere else. Reads the weights once, at the disk's or
        SHA-256's speed (1 to 2 GB/s), and so also warms the page cache from which the engine then loads them.
        """
        digest = hashlib.sha256()
        for path in sorted({path for glob in _IDENTITY_GLOBS for path in self.folder.glob(glob) if path.is_file()}):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.relative_to(self.folder)} {content}\n".encode())
        return digest.hexdigest()

    def _weights(self, subfolder: str) -> list[Path]:
        weights = sorted((self.folder / subfolder).glob("*.safetensors"))
        if not weights:
            where = f"{subfolder}/" if subfolder else ""
            raise self.refuse(f"it has no {where}*.safetensors: convert its weights, pickled ones are not read")
        return weights


def locate(model: str, revision: str | None) -> ModelFiles:
    """The model's files: a local folder, or a snapshot of the hub's, downloaded unless it is cached.

    The engine then loads the same folder, so both see one commit. Raises SettingsInvalid when there is neither.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return ModelFiles(model, folder.resolve(), None)
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - only for models that are no folder
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError  # noqa: PLC0415

    try:
        snapshot = snapshot_download(
            model, revision=revision, allow_patterns=list(_DOWNLOADED), ignore_patterns=list(_NOT_DOWNLOADED)
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as missing:
        raise SettingsInvalid(
            f"engine.model is {model}: there is no such folder, and the Hugging Face hub does not give it: {missing}"
        ) from missing
    return ModelFiles(model, Path(snapshot), Path(snapshot).name)
