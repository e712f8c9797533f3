"""A model's folder before anybody knows what the model is: what every family of models asks of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from consumer.model.card import ModelCard, ModelKind, Scale
from consumer.model.changes import changes
from consumer.model.files import ModelFiles
from consumer.model.sentence_files import check_sentence_files
from consumer.model.sliding_window import window_overrides
from consumer.sections import EngineSettings

_POSITIONS_AFTER_PADDING = ("roberta", "xlm-roberta")
"""Their positions are counted from padding's id + 1, so 514 positions hold 512 tokens."""
_NO_LIMIT_TOKENS = 10**9
"""transformers writes 10**30 where a tokenizer states no length."""
_TWO_SEGMENTS = 2
_SEGMENTS_UNLESS_STATED = {"bert": 2, "roberta": 2, "xlm-roberta": 2}
"""transformers' `type_vocab_size` of each model_type whose config.json says nothing."""


@dataclass(frozen=True)
class Candidate:
    """Its files, its config.json as `engine.args.hf_overrides` changes it, and the settings."""

    files: ModelFiles
    config: Mapping[str, Any]
    engine: EngineSettings

    @cached_property
    def architecture(self) -> str:
        """The class that the weights are of. Raises SettingsInvalid unless there is exactly one."""
        architectures = self.config.get("architectures")
        if not isinstance(architectures, list) or len(architectures) != 1:
            raise self.files.refuse(
                f"config.json must name one architecture in `architectures`, it says {architectures}"
            )
        return str(architectures[0])

    def positive(self, name: str) -> int:
        """A number of config.json. Raises SettingsInvalid unless it is a positive integer."""
        value = self.config.get(name)
        if type(value) is not int or value < 1:
            raise self.files.refuse(f"config.json must give a positive `{name}`, it says {value}")
        return value

    def check_own_code(self) -> None:
        """Raises SettingsInvalid where the weights are not of transformers' own class of that name."""
        if self.config.get("auto_map"):
            raise self.files.refuse(
                "its files bring code of their own (auto_map), which is not run; vLLM's may differ from it"
            )
        if (positions := self.config.get("position_embedding_type", "absolute")) != "absolute":
            raise self.files.refuse(f"its position_embedding_type {positions} is not supported, absolute is")

    def card(self, kind: ModelKind, scale: Scale, **traits: Any) -> ModelCard:
        """The card of a model whose family knows it; `traits`: fields of ModelCard that this family decides.

        Reads all weights once, for the fingerprint; so the last thing to do. Raises SettingsInvalid.
        """
        check_sentence_files(self.files, self.config, kind)
        files, engine = self.files, self.engine
        name = files.model if files.commit else files.folder.name
        shared: dict[str, Any] = {
            "name": name,
            "served_names": engine.served_names or (name,),
            "revision": files.commit or engine.revision,
            "folder": files.folder,
            "architecture": self.architecture,
            "dtype": engine.dtype,
            "vocabulary_size": self.positive("vocab_size"),
            "hidden_size": self.positive("hidden_size"),
            "has_segments": self._has_segments(),
            "lower_case": bool(files.sentence_config().get("do_lower_case", False)),
            "changes": changes(engine.args),
        }
        if "usable_tokens" not in traits:
            traits["usable_tokens"] = self.usable_tokens(self._stated_tokens())
        try:
            overrides = window_overrides(self.architecture, self.config, traits["usable_tokens"])
        except ValueError as problem:
            raise files.refuse(str(problem)) from problem
        traits["engine_overrides"] = overrides | traits.get("engine_overrides", {})
        return ModelCard(kind=kind, scale=scale, **(shared | traits), digest=files.digest())

    def _has_segments(self) -> bool:
        """More than one token type. Whether its tokenizer tells them apart is found out when that is loaded."""
        unstated = _SEGMENTS_UNLESS_STATED.get(str(self.config.get("model_type")), 0)
        return bool(self.config.get("type_vocab_size", unstated) >= _TWO_SEGMENTS)

    def usable_tokens(self, stated: int | None) -> int:
        """The least of what the positions allow and what is stated of this model; the setting may only lower it."""
        positions = self.positive("max_position_embeddings")
        if self.config.get("model_type") in _POSITIONS_AFTER_PADDING:
            positions -= self.config.get("pad_token_id", 1) + 1
        usable = min(positions, int(stated)) if stated is not None and 0 < stated < _NO_LIMIT_TOKENS else positions
        wanted = self.engine.max_model_len
        if wanted is None:
            return usable
        if wanted > usable:
            raise self.files.refuse(
                f"engine.max_model_len is {wanted}, but the model takes {usable} tokens: set at most {usable}"
            )
        return wanted

    def _stated_tokens(self) -> int | None:
        """Of sentence-transformers, which sets the tokenizer's length to its own where it has one; else of that."""
        stated: int | None = self.files.sentence_config().get("max_seq_length")
        return self.files.json("tokenizer_config.json").get("model_max_length") if stated is None else stated


class Family(NamedTuple):
    """Models that are recognised in one way.

    `architectures`: those it knows, for messages. `recognise`: the card, or None for a model of another family; raises
    SettingsInvalid, with the fix, for one of this family that cannot be scored right.
    """

    architectures: tuple[str, ...]
    recognise: Callable[[Candidate], ModelCard | None]
