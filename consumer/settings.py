"""The one settings model. Precedence: command line > environment > YAML file > defaults.

Environment names are `SCORESTREAM_` and the path with `__`: SCORESTREAM_KAFKA__GROUP_ID. The YAML file is named by
`--config` or SCORESTREAM_CONFIG. Every check that spans several settings stands in `Settings.check_together` and
its message names the setting, its value and the fix.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    YamlConfigSettingsSource,
)

from consumer.errors import SettingsInvalid

PREFIX = "SCORESTREAM_"
"""Of every setting's name in the environment."""


def _comma_list(value: object) -> object:
    """Accept "a,b" from the environment and the command line where a list is meant."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class RedisMode(StrEnum):
    """Whether an offset waits for Redis."""

    REQUIRED = "required"
    BEST_EFFORT = "best_effort"


class RedisNotify(StrEnum):
    """How waiters are told that a result is there."""

    PUBLISH = "publish"
    SPUBLISH = "spublish"
    OFF = "off"


class OffsetReset(StrEnum):
    """Where a group without a committed offset starts."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class Compression(StrEnum):
    """Compression of what the worker produces."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class EngineKind(StrEnum):
    """What computes the scores."""

    VLLM = "vllm"
    SCRIPTED = "scripted"


class KafkaSettings(_Section):
    """Broker, topics and group membership."""

    bootstrap_servers: str = "127.0.0.1:9092"
    """Comma-separated host:port list."""
    request_topic: str = "score.requests"
    """Topic of the requests."""
    result_topic: str = "score.results"
    """Topic of the results; at least as many partitions as the request topic."""
    dead_letter_topic: str = "score.dead"
    """Topic of the dead letters."""
    group_id: str = "scorestream"
    """Consumer group; every worker of one deployment has the same."""
    group_instance_id: str | None = None
    """Static membership; unique per worker, never with an autoscaler."""
    auto_offset_reset: OffsetReset = OffsetReset.EARLIEST
    """Where a group without committed offsets starts."""
    session_timeout_seconds: PositiveFloat = 45.0
    """Without heartbeats for so long a worker is out of the group."""
    heartbeat_interval_seconds: PositiveFloat = 3.0
    """At most a third of the session timeout."""
    rebalance_timeout_seconds: PositiveFloat = 60.0
    """How long the group waits for its members in a rebalance."""
    request_timeout_seconds: PositiveFloat = 70.0
    """Deadline of one call to a broker; above the rebalance timeout, because joining waits at the broker."""
    fetch_max_wait_ms: PositiveInt = 20
    """Long poll of one fetch; more starves a busy partition beside idle ones."""
    max_partition_fetch_bytes: PositiveInt = 1_048_576
    """Prefetched bytes per partition; half a second of one partition's work."""
    delivery_timeout_seconds: PositiveFloat = 30.0
    """Unacknowledged for so long, a batch's producer is discarded and the batch sent again."""
    compression: Compression = Compression.NONE
    """Compression of results and dead letters."""


class RedisSettings(_Section):
    """The cache that readers read."""

    url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")
    """redis://, rediss:// or unix:// URL."""
    prefix: str = "score:"
    """Key prefix; belongs to one (cluster, topic, group)."""
    mode: RedisMode = RedisMode.REQUIRED
    """`required`: an offset is committed only after Redis took the result. `best_effort`: the topic is the record."""
    notify: RedisNotify = RedisNotify.PUBLISH
    """How waiters are told."""
    ttl_seconds: PositiveInt = 3600
    """Of a result whose request names none."""
    max_ttl_seconds: PositiveInt = 86_400
    """The most a request may ask for."""
    timeout_seconds: PositiveFloat = 2.0
    """Deadline of one round trip; after it the write is tried again."""


class EngineSettings(_Section):
    """The pooling engine and its queue."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, protected_namespaces=())

    kind: EngineKind = EngineKind.VLLM
    """`vllm`, or `scripted`: made-up scores without a model, for drills."""
    model: str = ""
    """Hugging Face name or local folder."""
    revision: str | None = None
    """Of the model."""
    served_names: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_comma_list)] = ()
    """Names a request's `model` may use; default: the model's own name."""
    dtype: str = "auto"
    """vLLM's dtype; float32 on CPU keeps scores equal to transformers."""
    max_model_len: PositiveInt | None = None
    """Tokens of one sequence; default: what the model's files say is usable."""
    max_num_seqs: PositiveInt = 256
    """Sequences of one engine step."""
    max_num_batched_tokens: PositiveInt = 16_384
    """Tokens of one engine step; at least max_model_len."""
    steps_in_flight: PositiveInt = 2
    """Window of the GPU queue, in engine steps: one computing, the others ready."""
    start_timeout_seconds: PositiveFloat = 1200.0
    """Model download and load."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Any other argument of vLLM's AsyncEngineArgs, checked by vLLM."""
    scripted_seconds_per_step: float = 0.002
    """Of the scripted engine: how long one step takes."""

    @property
    def window_sequences(self) -> int:
        """Sequences that may be in the engine at once."""
        return self.max_num_seqs * self.steps_in_flight

    @property
    def window_tokens(self) -> int:
        """Tokens that may be in the engine at once."""
        return self.max_num_batched_tokens * self.steps_in_flight


class MicroBatchSettings(_Section):
    """Bounds of what is handed to the engine at once."""

    max_records: PositiveInt = 64
    """Requests of one micro-batch."""
    max_tokens: PositiveInt = 8192
    """Tokens of one micro-batch."""
    linger_ms: NonNegativeInt = 2
    """How long a micro-batch may wait to fill while the engine is busy; an idle engine never waits."""


class LimitSettings(_Section):
    """What one request may be, and what one worker may hold."""

    max_items: PositiveInt = 1000
    """Documents or inputs of one request."""
    truncate: bool = True
    """For requests that do not say: cut to fit, or refuse with `too_long`."""
    max_text_bytes: PositiveInt = 1_000_000
    """Of one text; a longer one is refused before it is tokenised."""
    lane_records: PositiveInt = 2048
    """Undelivered records of one partition; at least twice the engine window."""
    memory_bytes: PositiveInt = 512 * 1024 * 1024
    """Undelivered records of all partitions, as held in memory; one fetch of each partition may come on top."""
    lane_memory_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The share of memory_bytes that no partition exceeds."""
    max_uncommitted_records: PositiveInt = 2000
    """Delivered but uncommitted records of one partition: the bound of duplicates after a crash."""
    chunk_records: PositiveInt = 500
    """Results of one partition written at once."""
    chunk_bytes: PositiveInt = 900_000
    """Bytes of one produce batch; below the topic's max.message.bytes."""


class BreakerSettings(_Section):
    """When a partition is held because nearly all of its requests fail through this deployment's fault."""

    window_records: PositiveInt = 200
    """The last outcomes of a partition that are looked at; fewer never hold it."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Held when more than this share of them is `internal`, `engine_rejected`, `non_finite`, `wrong_model` or
    `unsupported_task`."""
    probe_seconds: PositiveFloat = 30.0
    """Between two tries of one record while it is held."""


class CommitSettings(_Section):
    """Offset commits."""

    interval_ms: PositiveInt = 200
    """Between two commits."""
    timeout_seconds: PositiveFloat = 3.0
    """Deadline of one commit."""


class ShutdownSettings(_Section):
    """Budgets of leaving partitions and of stopping."""

    revoke_seconds: PositiveFloat = 12.0
    """To finish what is in flight when partitions are revoked, before the last commit."""
    drain_seconds: PositiveFloat = 30.0
    """To finish what is in flight on SIGTERM."""


class Settings(BaseSettings):
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
    micro_batch: MicroBatchSettings = MicroBatchSettings()
    limits: LimitSettings = LimitSettings()
    breaker: BreakerSettings = BreakerSettings()
    commit: CommitSettings = CommitSettings()
    shutdown: ShutdownSettings = ShutdownSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Command line (given as init arguments), environment, YAML file; in this order."""
        del dotenv_settings, file_secret_settings
        file = os.environ.get("SCORESTREAM_CONFIG")
        yaml = (YamlConfigSettingsSource(settings_cls, yaml_file=Path(file)),) if file else ()
        return (init_settings, env_settings, *yaml)

    @model_validator(mode="after")
    def check_together(self) -> Self:
        """Refuse combinations that cannot work; every message names the fix."""
        kafka, engine, limits = self.kafka, self.engine, self.limits
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
        if leaving_seconds > 0.3 * kafka.rebalance_timeout_seconds:
            raise ValueError(
                f"shutdown.revoke_seconds + 2 x commit.timeout_seconds is {leaving_seconds:g}: set them to at most 0.3 "
                f"x kafka.rebalance_timeout_seconds ({0.3 * kafka.rebalance_timeout_seconds:g}) together, or raise "
                "that timeout, so that a worker gives its partitions up before the group gives up on the worker"
            )
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
        if engine.kind is EngineKind.VLLM and not engine.model:
            raise ValueError("engine.model is empty: name a Hugging Face model or a local folder")
        if limits.lane_records < 2 * engine.window_sequences:
            raise ValueError(
                f"limits.lane_records is {limits.lane_records}: set it to at least twice the engine window "
                f"(2 x {engine.window_sequences} = {2 * engine.window_sequences}), or one slow request idles the engine"
            )
        if self.redis.ttl_seconds > self.redis.max_ttl_seconds:
            raise ValueError(
                f"redis.ttl_seconds is {self.redis.ttl_seconds}: set it to at most redis.max_ttl_seconds "
                f"({self.redis.max_ttl_seconds})"
            )
        topics = (kafka.request_topic, kafka.result_topic, kafka.dead_letter_topic)
        if len(set(topics)) < len(topics):
            raise ValueError(
                f"kafka.request_topic, kafka.result_topic and kafka.dead_letter_topic are {', '.join(topics)}: "
                "set three different topics, or the worker reads what it writes"
            )
        return self


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
    file = os.environ.get("SCORESTREAM_CONFIG")
    if file and not Path(file).is_file():
        raise SettingsInvalid(f"SCORESTREAM_CONFIG is {file}: there is no such file")
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
