"""What a model's folder says about the model, read without loading it and without importing torch or vLLM.

The layout is Hugging Face's (config.json, tokenizer files, *.safetensors) with the files that sentence-transformers
adds: modules.json, 1_Pooling/config.json, sentence_bert_config.json, config_sentence_transformers.json.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consumer.errors import SettingsInvalid, WeightsUnusable
from consumer.model import weight_files

_TOKENIZER = ("tokenizer*", "vocab*", "*.model", "*.spm", "*.codes", "*.tiktoken", "*.jinja")
_READ = ("*.json", "*.txt", "*.safetensors", "artifact.metadata", *_TOKENIZER)
"""All that the worker, vLLM and the tokenizer read; what a model is downloaded with, and what its identity is."""
MODULES = "modules.json"
_NOT_DOWNLOADED = ("onnx/*", "openvino/*", "original/*")
_ADAPTER = ("adapter_config.json", "adapter_model.safetensors")
_SENTENCE_CONFIGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""sentence-transformers writes the first, and reads the first of them that says anything."""


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

    def modules(self) -> list[dict[str, Any]]:
        """What modules.json names, in order; none where there is none. Raises SettingsInvalid for another form."""
        modules = self.json(MODULES) or []
        if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
            raise self.refuse(f"{MODULES} must be a list of objects")
        return modules

    @property
    def sentence_config_name(self) -> str:
        """The file in which sentence-transformers says how the encoder is used; its newest name where none does."""
        return next((name for name in _SENTENCE_CONFIGS if self.json(name)), _SENTENCE_CONFIGS[0])

    def sentence_config(self) -> dict[str, Any]:
        """What sentence-transformers says of the encoder (`max_seq_length`, ...); {} where it says nothing.

        Raises SettingsInvalid unless that is an object.
        """
        stated = self.json(self.sentence_config_name)
        if not isinstance(stated, dict):
            raise self.refuse(f"{self.sentence_config_name} must be an object")
        return stated

    def check_adapter(self) -> None:
        """Raises SettingsInvalid where transformers would apply an adapter, which vLLM takes for weights or ignores."""
        if found := [name for name in _ADAPTER if (self.folder / name).is_file()]:
            raise self.refuse(
                f"it has an adapter ({found[0]}): merge it into the weights (merge_and_unload of peft), save them, and "
                f"name that folder; where they hold it already, remove {found[0]}"
            )

    def tensor_shapes(self, subfolder: str = "") -> dict[str, tuple[int, ...]]:
        """Every tensor's shape, from the headers of the weight files of the model, or of one of its modules.

        Raises SettingsInvalid when there are no safetensors, or when they are damaged or not complete.
        """
        try:
            return weight_files.tensor_shapes(self.folder / subfolder)
        except WeightsUnusable as unusable:
            raise self.refuse(f"{subfolder}/: {unusable}" if subfolder else str(unusable)) from unusable

    def digest(self) -> str:
        """SHA-256 over the bytes of everything that is read of a model: equal exactly for the same model.

        All bytes, because two fine-tunings of one model differ nowhere else. Reads the weights once, at the disk's or
        SHA-256's speed (1 to 2 GB/s), and so also warms the page cache from which the engine then loads them.
        """
        digest = hashlib.sha256()
        for path in sorted(set(self._read())):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{os.path.relpath(path, self.folder)} {content}\n".encode())
        return digest.hexdigest()

    def _read(self) -> Iterator[Path]:
        """The files of the folder itself, and of the folders of its sentence-transformers modules."""
        # The pooling's is read without modules.json, too.
        folders = {"", "1_Pooling", *(str(module.get("path", "")) for module in self.modules())}
        for folder in folders:
            for glob in _READ:
                yield from (path for path in (self.folder / folder).glob(glob) if path.is_file())


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
            model, revision=revision, allow_patterns=list(_READ), ignore_patterns=list(_NOT_DOWNLOADED)
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as missing:
        raise SettingsInvalid(
            f"engine.model is {model}: there is no such folder, and the Hugging Face hub does not give it: {missing}"
        ) from missing
    return ModelFiles(model, Path(snapshot), Path(snapshot).name)
