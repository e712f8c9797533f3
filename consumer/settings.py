"""The one settings model. Precedence: command line > environment > YAML file > defaults.

Environment names are `SCORESTREAM_` and the path with `__`: SCORESTREAM_KAFKA__GROUP_ID. The YAML file is named by
`--config` or SCORESTREAM_CONFIG. Every check that spans several settings stands in `Settings.check_together` and
its message names the setting, its value and the fix. The settings themselves stand in sections.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import ValidationError, model_validator
from pydantic_settings import SettingsConfigDict

from consumer.finding import Finding, Refused
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
from producer_tools.connections.environment import PREFIX, misspelt, no_objects, of_no_section
from producer_tools.connections.problems import Problem, problem, problems_of, unknown
from producer_tools.connections.settings_file import CONFIG_VARIABLE, FileSettings, SettingsFileInvalid
from producer_tools.connections.values import Impossible

_ROUNDING_SECONDS = 1e-6
"""Sums of decimal fractions are not exact."""


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
            raise _together(
                "engine.max_num_batched_tokens",
                engine.max_num_batched_tokens,
                f"set it to at least engine.max_model_len ({engine.max_model_len}), because every sequence runs in one "
                "step",
            )
        if engine.max_num_batched_tokens < engine.max_num_seqs:
            raise _together(
                "engine.max_num_batched_tokens",
                engine.max_num_batched_tokens,
                f"set it to at least engine.max_num_seqs ({engine.max_num_seqs})",
            )
        if limits.lane_records < 2 * engine.window_sequences:
            raise _together(
                "limits.lane_records",
                limits.lane_records,
                f"set it to at least twice the engine window (2 x {engine.window_sequences} = "
                f"{2 * engine.window_sequences}), or one slow request idles the engine",
            )
        if limits.max_unpacked_bytes is not None and limits.max_unpacked_bytes > limits.room_for_one_bytes:
            raise _together(
                "limits.max_unpacked_bytes",
                limits.max_unpacked_bytes,
                f"set it to at most {limits.room_for_one_bytes}, what limits.lane_memory_share of limits.memory_bytes "
                "has room for, where a record in work weighs eleven times its bytes; or raise those",
            )
        if self.redis.ttl_seconds > self.redis.max_ttl_seconds:
            raise _together(
                "redis.ttl_seconds",
                self.redis.ttl_seconds,
                f"set it to at most redis.max_ttl_seconds ({self.redis.max_ttl_seconds})",
            )
        if self.workers.mps is Mps.ON and self.workers.count == 1:
            raise Impossible(
                "workers.mps is on and workers.count is 1",
                "MPS is for workers that share a GPU; set workers.count, or workers.mps to off",
                "workers.mps",
            )
        topics = (kafka.request_topic, kafka.result_topic, kafka.dead_letter_topic)
        if len(set(topics)) < len(topics):
            raise Impossible(
                f"kafka.request_topic, kafka.result_topic and kafka.dead_letter_topic are {', '.join(topics)}",
                "set three different topics, or the worker reads what it writes",
                "kafka.result_topic",
            )
        return self

    def _check_timing(self) -> None:
        """What the group, the broker and a frozen worker ask of the time limits."""
        kafka = self.kafka
        if kafka.heartbeat_interval_seconds > kafka.session_timeout_seconds / 3:
            raise _together(
                "kafka.heartbeat_interval_seconds",
                kafka.heartbeat_interval_seconds,
                f"set it to at most a third of kafka.session_timeout_seconds ({kafka.session_timeout_seconds:g}), that "
                f"is {kafka.session_timeout_seconds / 3:g}, so that one lost heartbeat does not end the membership",
            )
        if kafka.request_timeout_seconds < kafka.rebalance_timeout_seconds + 5:
            raise _together(
                "kafka.request_timeout_seconds",
                kafka.request_timeout_seconds,
                f"set it to at least kafka.rebalance_timeout_seconds + 5 ({kafka.rebalance_timeout_seconds + 5:g}), "
                "because joining waits at the broker for the whole rebalance",
            )
        leaving_seconds = self.shutdown.revoke_seconds + 2 * self.commit.timeout_seconds
        if leaving_seconds > 0.3 * kafka.rebalance_timeout_seconds + _ROUNDING_SECONDS:
            most_seconds = 0.3 * kafka.rebalance_timeout_seconds
            raise Impossible(
                f"shutdown.revoke_seconds + 2 x commit.timeout_seconds is {leaving_seconds:g}",
                f"set them to at most 0.3 x kafka.rebalance_timeout_seconds ({most_seconds:g}) together, or raise that "
                "timeout, so that a worker gives its partitions up before the group gives up on the worker",
                "shutdown.revoke_seconds",
            )


def _together(setting: str, value: float, fix: str) -> Impossible:
    return Impossible(f"{setting} is {value:g}" if isinstance(value, float) else f"{setting} is {value}", fix, setting)


def load_settings(overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings from every source; `overrides` are dotted paths from the command line.

    Raises Refused, one line per problem, with no secret in it.
    """
    tree = _tree(overrides or {})
    environment = os.environ
    _refuse(
        misspelt(environment, Settings) or of_no_section(environment, Settings) or no_objects(environment, Settings)
    )
    try:
        return Settings(**tree)
    except ValidationError as invalid:
        problems = problems_of(invalid, Settings)
    except SettingsFileInvalid as invalid:
        problems = [Problem(CONFIG_VARIABLE, str(invalid), "", str(invalid))]
    raise _refusal(problems)


def _tree(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Sections within sections, of dotted paths. Raises Refused."""
    tree: dict[str, Any] = {}
    for path, value in overrides.items():
        *sections, name = path.split(".")
        if (sections or [name])[0] not in Settings.model_fields:
            raise _refusal([unknown([*sections, name], Settings)])
        branch = tree
        for section in sections:
            branch = branch.setdefault(section, {})
            if not isinstance(branch, dict):
                raise _refusal([problem(path, f"{section} is set to a value too", "set one of them")])
        branch[name] = value
    return tree


def _refuse(problems: Sequence[Problem]) -> None:
    if problems:
        raise _refusal(problems)


def _refusal(problems: Sequence[Problem]) -> Refused:
    findings = [Finding(setting, ok=False, found=found, fix=fix) for setting, found, fix, _ in problems]
    return Refused(findings, "\n".join(line for *_, line in problems))
