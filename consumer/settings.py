"""The one settings model. Precedence: command line > environment > YAML file > defaults.

Environment names are `SCORESTREAM_` and the path with `__`: SCORESTREAM_KAFKA__GROUP_ID. The YAML file is named by
`--config` or SCORESTREAM_CONFIG. Every check that spans several settings stands in `Settings.check_together` and
its message names the setting, its value and the fix. The settings themselves stand in sections.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ValidationError, model_validator
from pydantic_settings import SettingsConfigDict, SettingsError

from consumer.errors import SettingsInvalid
from consumer.sections import (
    BreakerSettings,
    CommitSettings,
    EngineSettings,
    HealthSettings,
    KafkaSettings,
    LimitSettings,
    MicroBatchSettings,
    Mps,
    RedisSettings,
    ShutdownSettings,
    WorkersSettings,
)
from producer_tools.connections.settings_file import FileSettings, SettingsFileInvalid

_ROUNDING_SECONDS = 1e-6
"""Sums of decimal fractions are not exact."""
PREFIX = "SCORESTREAM_"
"""Of every setting's name in the environment."""


class Settings(FileSettings):
    """All settings of the worker."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    kafka: KafkaSettings = KafkaSettings()
    redis: RedisSettings = RedisSettings()
    engine: EngineSettings = EngineSettings()
    workers: WorkersSettings = WorkersSettings()
    micro_batch: MicroBatchSettings = MicroBatchSettings()
    limits: LimitSettings = LimitSettings()
    breaker: BreakerSettings = BreakerSettings()
    commit: CommitSettings = CommitSettings()
    health: HealthSettings = HealthSettings()
    shutdown: ShutdownSettings = ShutdownSettings()

    @model_validator(mode="after")
    def check_together(self) -> Self:
        """Refuse combinations that cannot work; every message names the fix."""
        kafka, engine, limits = self.kafka, self.engine, self.limits
        self._check_timing()
        if engine.max_model_len is not None and engine.max_num_batched_tokens < engine.max_model_len:
            raise ValueError(
                f"engine.max_num_batched_tokens is {engine.max_num_batched_tokens}: set it to at least "
                f"engine.max_model_len ({engine.max_model_len}), because every sequence runs in one step"
            )
        if engine.max_num_batched_tokens < engine.max_num_seqs:
            raise ValueError(
                f"engine.max_num_batched_tokens is {engine.max_num_batched_tokens}: set it to at least "
                f"engine.max_num_seqs ({engine.max_num_seqs})"
            )
        if limits.lane_records < 2 * engine.window_sequences:
            raise ValueError(
                f"limits.lane_records is {limits.lane_records}: set it to at least twice the engine window "
                f"(2 x {engine.window_sequences} = {2 * engine.window_sequences}), or one slow request idles the engine"
            )
        if limits.max_unpacked_bytes is not None and limits.max_unpacked_bytes > limits.room_for_one_bytes:
            raise ValueError(
                f"limits.max_unpacked_bytes is {limits.max_unpacked_bytes}: set it to at most "
                f"{limits.room_for_one_bytes}, what limits.lane_memory_share of limits.memory_bytes has room for, "
                "where a record in work weighs eleven times its bytes; or raise those"
            )
        if self.redis.ttl_seconds > self.redis.max_ttl_seconds:
            raise ValueError(
                f"redis.ttl_seconds is {self.redis.ttl_seconds}: set it to at most redis.max_ttl_seconds "
                f"({self.redis.max_ttl_seconds})"
            )
        if self.workers.mps is Mps.ON and self.workers.count == 1:
            raise ValueError(
                "workers.mps is on and workers.count is 1: MPS is for workers that share a GPU; set workers.count, or "
                "workers.mps to off"
            )
        topics = (kafka.request_topic, kafka.result_topic, kafka.dead_letter_topic)
        if len(set(topics)) < len(topics):
            raise ValueError(
                f"kafka.request_topic, kafka.result_topic and kafka.dead_letter_topic are {', '.join(topics)}: "
                "set three different topics, or the worker reads what it writes"
            )
        return self

    def _check_timing(self) -> None:
        """What the group, the broker and a frozen worker ask of the time limits."""
        kafka = self.kafka
        if kafka.heartbeat_interval_seconds > kafka.session_timeout_seconds / 3:
            raise ValueError(
                f"kafka.heartbeat_interval_seconds is {kafka.heartbeat_interval_seconds:g}: set it to at most a third "
                f"of kafka.session_timeout_seconds ({kafka.session_timeout_seconds:g}), that is "
                f"{kafka.session_timeout_seconds / 3:g}, so that one lost heartbeat does not end the membership"
            )
        if kafka.request_timeout_seconds < kafka.rebalance_timeout_seconds + 5:
            raise ValueError(
                f"kafka.request_timeout_seconds is {kafka.request_timeout_seconds:g}: set it to at least "
                f"kafka.rebalance_timeout_seconds + 5 ({kafka.rebalance_timeout_seconds + 5:g}), because joining waits "
                "at the broker for the whole rebalance"
            )
        leaving_seconds = self.shutdown.revoke_seconds + 2 * self.commit.timeout_seconds
        if leaving_seconds > 0.3 * kafka.rebalance_timeout_seconds + _ROUNDING_SECONDS:
            raise ValueError(
                f"shutdown.revoke_seconds + 2 x commit.timeout_seconds is {leaving_seconds:g}: set them to at most 0.3 "
                f"x kafka.rebalance_timeout_seconds ({0.3 * kafka.rebalance_timeout_seconds:g}) together, or raise "
                "that timeout, so that a worker gives its partitions up before the group gives up on the worker"
            )


def load_settings(overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings from every source; `overrides` are dotted paths from the command line.

    Raises SettingsInvalid, one line per problem, with no secret in it.
    """
    tree: dict[str, Any] = {}
    for path, value in (overrides or {}).items():
        *sections, name = path.split(".")
        branch = tree
        for section in sections:
            branch = branch.setdefault(section, {})
        branch[name] = value
    if misspelt := _misspelt_names(os.environ):
        raise SettingsInvalid("\n".join(misspelt))
    try:
        return Settings(**tree)
    except ValidationError as invalid:
        lines = []
        for error in invalid.errors(include_input=False, include_url=False):
            where = ".".join(str(part) for part in error["loc"])
            message = error["msg"].removeprefix("Value error, ")
            lines.append(f"{where}: {message}" if where else message)
        raise SettingsInvalid("\n".join(lines)) from None
    except SettingsError as unreadable:
        raise SettingsInvalid(f"{unreadable}: {unreadable.__cause__}") from None
    except SettingsFileInvalid as invalid:
        raise SettingsInvalid(str(invalid)) from None


def _misspelt_names(environment: Iterable[str]) -> list[str]:
    """What is wrong with names that are meant as settings; pydantic-settings ignores them.

    Not every other name is a mistake: Kubernetes adds SCORESTREAM_PORT and the like for a service called scorestream.
    """
    sections = {name: field.annotation for name, field in Settings.model_fields.items()}
    settings = {
        f"{PREFIX}{section}_{name}".upper(): f"{PREFIX}{section}__{name}".upper()
        for section, model in sections.items()
        if isinstance(model, type) and issubclass(model, BaseModel)
        for name in model.model_fields
    }
    problems = []
    for name in environment:
        section, nested, _ = name.upper().removeprefix(PREFIX).lower().partition("__")
        if name.upper() in settings:
            problems.append(f"{name} is not read: write {settings[name.upper()]}, with two underscores")
        elif name.upper().startswith(PREFIX) and nested and section not in sections:
            problems.append(f"{name}: there is no section {section}; there are {', '.join(sections)}")
    return problems
