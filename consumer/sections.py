"""The sections of the settings: what each setting means, its unit, its default."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    field_serializer,
    field_validator,
)

from consumer.errors import SettingsInvalid
from consumer.key_prefix import why_unfit
from producer_tools.connections.settings import KafkaSecurity, RedisSecurity, Section
from producer_tools.connections.values import (
    Addresses,
    Impossible,
    ListeningHost,
    Model,
    OptionalText,
    OptionalTextList,
    RedisUrl,
    Text,
    TextList,
    Topic,
    UnixPath,
)

HELD_BYTES_PER_RAW_BYTE = 11
"""A record in work weighs its bytes, its decoded text, and its token ids: 36 bytes of Python int and pointer for a
token of about 4 bytes of text."""
_MASKED = "**********"
_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?i:token|secret|password|key|credentials?)$|[a-z](?:Token|Secret|Password|Key|Credentials?)$"
)


Dtype = Literal["auto", "half", "float16", "bfloat16", "float", "float32"]
"""vLLM's."""
_MAX_INT32 = 2**31 - 1
_KafkaMs = Annotated[int, Field(gt=0, le=_MAX_INT32)]
_KafkaBytes = Annotated[int, Field(gt=0, le=_MAX_INT32)]
_KafkaSeconds = Annotated[float, Field(gt=0, le=_MAX_INT32 // 1000)]
"""Kafka's protocol has 32 bits for these, and for milliseconds."""
_TtlSeconds = Annotated[int, Field(gt=0, le=_MAX_INT32)]


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


class Mps(StrEnum):
    """Whether workers that share a GPU compute at the same time, or in turn."""

    OFF = "off"
    ON = "on"


class EngineClient(StrEnum):
    """By which of vLLM's clients requests enter the engine."""

    AUTO = "auto"
    ASYNC_LLM = "async_llm"
    ENGINE_CORE = "engine_core"


class KafkaSettings(Section):
    """Broker, topics and group membership."""

    bootstrap_servers: Addresses = "127.0.0.1:9092"
    """Comma-separated host:port list."""
    security: KafkaSecurity = KafkaSecurity()
    """Encryption and credentials."""
    request_topic: Topic = "score.requests"
    """Topic of the requests."""
    result_topic: Topic = "score.results"
    """Topic of the results; at least as many partitions as the request topic."""
    dead_letter_topic: Topic = "score.dead"
    """Topic of the dead letters."""
    group_id: Text = "scorestream"
    """Consumer group; every worker of one deployment has the same."""
    group_instance_id: OptionalText = None
    """Static membership; unique per worker, never with an autoscaler. A worker with an id does not leave the group when
    it stops: back within the session timeout, it finds its partitions and nobody else is moved; until then they wait.
    Of two workers with one id, the one that came later stays, and the other exits with 2."""
    auto_offset_reset: OffsetReset = OffsetReset.EARLIEST
    """Where a group without committed offsets starts; a worker that had the partition and could not commit goes on
    where it was. With `none` the worker exits with 2 instead; also when retention removed what the group had not read,
    which the others count, and go on at the beginning of what is left."""
    session_timeout_seconds: _KafkaSeconds = 45.0
    """Without heartbeats for so long a worker is out of the group."""
    heartbeat_interval_seconds: PositiveFloat = 3.0
    """At most a third of the session timeout."""
    rebalance_timeout_seconds: _KafkaSeconds = 60.0
    """How long the group waits for its members in a rebalance."""
    request_timeout_seconds: _KafkaSeconds = 70.0
    """Deadline of one call to a broker; above the rebalance timeout, because joining waits at the broker."""
    fetch_max_wait_ms: _KafkaMs = 20
    """Long poll of one fetch; more starves a busy partition beside idle ones."""
    max_partition_fetch_bytes: _KafkaBytes = 1_048_576
    """Prefetched bytes per partition; half a second of one partition's work."""
    delivery_timeout_seconds: PositiveFloat = 30.0
    """Unacknowledged for so long, a batch's producer is discarded and the batch sent again."""
    compression: Compression = Compression.NONE
    """Compression of results and dead letters."""


class RedisSettings(Section):
    """The cache that readers read."""

    url: RedisUrl = SecretStr("redis://127.0.0.1:6379/0")
    """redis://host:port/db, redis+sentinel://host:port,host:port/service/db, redis+cluster://host:port,host:port, each
    encrypted as rediss://, or unix:///path."""
    security: RedisSecurity = RedisSecurity()
    """Encryption and credentials, beside what stands in the URL."""
    prefix: str = "score:"
    """Key prefix; belongs to one (cluster, topic, group). It neither begins with another deployment's prefix nor is the
    beginning of one: beside `score:`, `score-v2:` and not `score:v2:`. Nor with `scorestream:`."""
    mode: RedisMode = RedisMode.REQUIRED
    """`required`: an offset is committed only after Redis took the result. `best_effort`: the topic is the record."""
    notify: RedisNotify = RedisNotify.PUBLISH
    """How waiters are told."""
    ttl_seconds: _TtlSeconds = 3600
    """Of a result whose request names none."""
    max_ttl_seconds: _TtlSeconds = 86_400
    """The most a request may ask for."""
    timeout_seconds: PositiveFloat = 2.0
    """Deadline of one round trip; after it the write is tried again."""

    @field_validator("prefix")
    @classmethod
    def check_prefix(cls, prefix: str) -> str:
        """Refuse one under which a request's id could reach a key of our own."""
        if unfit := why_unfit(prefix):
            raise Impossible(*unfit)
        return prefix


class RerankerSettings(Section):
    """How a decoder reranker is asked; other models have no prompt."""

    template: str = ""
    """`qwen3`, or the whole prompt with {query}, {document} and, where it has one, {instruction}; default: what the
    model's own files state."""
    instruction: str | None = None
    """For requests that give none; default: the template's own."""
    relevant_token: str | None = None
    """The entry of the model's vocabulary whose logit says `relevant`, for models without a head of their own."""
    irrelevant_token: str | None = None
    """The entry whose logit is taken off, where the score is a difference."""


class EngineSettings(Section):
    """The pooling engine and its queue."""

    model_config = ConfigDict(protected_namespaces=())

    kind: EngineKind = EngineKind.VLLM
    """`vllm`, or `scripted`: made-up scores without a model, for drills."""
    model: Model = ""
    """Hugging Face name or local folder."""
    revision: OptionalText = None
    """Of the model."""
    served_names: TextList = ()
    """Names a request's `model` may use, the first of which stands in results; default: the model's own name."""
    dtype: Dtype = "auto"
    """vLLM's dtype; float32 on CPU keeps scores equal to transformers."""
    max_model_len: PositiveInt | None = None
    """Tokens of one sequence; default: what the model's files say is usable."""
    max_num_seqs: PositiveInt = 256
    """Sequences of one engine step."""
    max_num_batched_tokens: PositiveInt = 16_384
    """Tokens of one engine step; at least max_model_len."""
    prefix_caching: bool = True
    """Whether what sequences begin with in common is computed once, where the model allows it: decoders."""
    reranker: RerankerSettings = RerankerSettings()
    """How a decoder reranker is asked."""
    query_prompt: str | None = None
    """Put before every query of an embedder; default: what the model's files state."""
    document_prompt: str | None = None
    """The same before every document."""
    query_expansion: bool = True
    """Whether queries are filled up with mask tokens where a late-interaction model's files ask for it."""
    steps_in_flight: PositiveInt = 4
    """Window of the GPU's queue, in engine steps, at its widest. It narrows to two, one computing and one ready, while
    steps come back full all the same."""
    hang_seconds: PositiveFloat = 30.0
    """An engine that does not answer a ping for so long counts as dead; more than its longest step."""
    restart_period_seconds: PositiveFloat = 3600.0
    """A dead engine is restarted in place once in so long; if it dies again sooner, the process exits with 1."""
    start_timeout_seconds: PositiveFloat = 1200.0
    """Model download and load."""
    client: EngineClient = EngineClient.AUTO
    """By which of vLLM's clients requests enter the engine. `async_llm`: its public one. `engine_core`: the one
    beneath, at less than half of the CPU per request; it may change with any release of vLLM, so at every start it has
    to score a few sequences as async_llm does. `auto`: engine_core, or async_llm where that fails."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Any other argument of vLLM's AsyncEngineArgs, checked by vLLM."""
    io_processors: OptionalTextList = None
    """vLLM's IO processors that requests may name with `task: plugin`; default: all that are installed."""
    io_processor_timeout_seconds: PositiveFloat = 30.0
    """For what an IO processor does before the engine, and again after it; over it the answer is `internal`."""
    scripted_seconds_per_step: NonNegativeFloat = 0.002
    """Of the scripted engine: how long one step takes."""

    @field_serializer("args")
    def _mask(self, args: dict[str, Any]) -> dict[str, Any]:
        """Wherever settings are shown: vLLM takes tokens for model hubs, and plugins take what they like."""
        masked: dict[str, Any] = _without_secrets(args)
        return masked

    def require_model(self) -> None:
        """Raises SettingsInvalid when there is none to load. Caller: who is about to; without one `check` goes on."""
        if self.kind is EngineKind.VLLM and not self.model:
            raise SettingsInvalid("engine.model is empty: name a Hugging Face model or a local folder")

    @property
    def window_sequences(self) -> int:
        """Sequences that may be in the engine at once, when the window is widest."""
        return self.max_num_seqs * self.steps_in_flight


def _without_secrets(value: Any) -> Any:
    """Of JSON, at every depth."""
    if isinstance(value, dict):
        return {
            name: _MASKED if _SECRET_NAME.search(str(name)) else _without_secrets(below)
            for name, below in value.items()
        }
    return [_without_secrets(below) for below in value] if isinstance(value, list) else value


class MicroBatchSettings(Section):
    """Bounds of what is handed to the engine at once."""

    max_records: PositiveInt = 64
    """Requests of one micro-batch."""
    max_tokens: PositiveInt = 8192
    """Tokens of one micro-batch."""
    linger_ms: NonNegativeInt = 2
    """How long a micro-batch may wait to fill while the engine is busy; an idle engine never waits."""


class LimitSettings(Section):
    """What one request may be, and what one worker may hold."""

    max_items: PositiveInt = 1000
    """Documents or inputs of one request."""
    truncate: bool = True
    """For requests that do not say: cut to fit, or refuse with `too_long`."""
    max_text_bytes: PositiveInt = 1_000_000
    """Of one text; a longer one is refused before it is tokenised."""
    lane_records: PositiveInt = 4096
    """Undelivered records of one partition; at least twice the engine window."""
    memory_bytes: PositiveInt = 512 * 1024 * 1024
    """Undelivered records of all partitions, as held in memory. Exceeded by what one fetch of one partition brings, or
    by one record, if it weighs more than was expected. What is fetched ahead comes on top, as bytes."""
    lane_memory_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The share of memory_bytes that one partition may take alone. Several share what there is, and partitions that
    stand still leave something to the others; one without records in memory may always take one while any is left."""
    max_unpacked_bytes: PositiveInt | None = None
    """Of one record of a compressed batch, unpacked. A larger one is not read: its dead letter has its place and no
    value. Default, and most: what lane_memory_share of memory_bytes has room for, where a record in work weighs eleven
    times its bytes."""
    max_uncommitted_records: PositiveInt = 2000
    """Delivered but uncommitted records of one partition: the bound of duplicates after a crash."""
    chunk_records: PositiveInt = 500
    """Results of one partition written at once."""
    chunk_bytes: PositiveInt = 900_000
    """Bytes of one produce batch; below the topic's max.message.bytes."""

    @property
    def room_for_one_bytes(self) -> int:
        """Bytes of a record that takes all that one partition may hold."""
        return int(self.memory_bytes * self.lane_memory_share) // HELD_BYTES_PER_RAW_BYTE


class BreakerSettings(Section):
    """When a partition is held because nearly all of its requests fail through this deployment's fault."""

    window_records: PositiveInt = 200
    """The last outcomes of a partition that are looked at; fewer never hold it."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Held when more than this share of them is `internal`, `engine_rejected`, `non_finite`, `wrong_model` or
    `unsupported_task`."""
    probe_seconds: PositiveFloat = 30.0
    """Between two tries of one record while it is held."""


class HealthSettings(Section):
    """`/livez` and `/readyz`, and the watchdogs behind them."""

    host: ListeningHost = "::"
    """Address to listen on. `::`: every address of IPv6 and of IPv4, also where the machine has only one of the two;
    `0.0.0.0`: every address of IPv4."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    """TCP port to listen on; 0: none. Of several workers: their supervisor's, for all of them."""
    unix_socket: UnixPath = None
    """Path of a Unix socket to listen on, in place of host and port."""
    stuck_seconds: PositiveFloat = 120.0
    """An engine that does not give something back for so long counts as dead; more than its window takes. A partition
    whose head does not move for so long, held by nothing, is not live, and after twice as long the process exits."""
    unread_seconds: PositiveFloat = 30.0
    """A partition that receives nothing for so long, though there is something to read, makes the worker unready; so
    does one whose records an open transaction keeps from being read. More than the producers' longest transaction."""
    loop_lag_seconds: PositiveFloat = 10.0
    """An event loop that is later than this is not live."""


class WorkersSettings(Section):
    """Several workers on one machine, under one supervisor, each with an engine of its own."""

    count: Annotated[int, Field(ge=1, le=64)] = 1
    """Worker processes; GPUs are given to them in turn. 1: no supervisor."""
    mps: Mps = Mps.OFF
    """`on`: a private CUDA MPS daemon, so that workers that share a GPU compute at the same time. One that
    dies is restarted alone; a fault on the GPU ends the engines of all that share it."""
    join_timeout_seconds: PositiveFloat = 300.0
    """How long a worker that is warm waits for others that still start, so that all join the group in one rebalance."""


class CommitSettings(Section):
    """Offset commits."""

    interval_ms: PositiveInt = 200
    """Between two commits."""
    timeout_seconds: PositiveFloat = 3.0
    """Deadline of one commit."""


class ShutdownSettings(Section):
    """Budgets of leaving partitions and of stopping."""

    revoke_seconds: PositiveFloat = 12.0
    """To finish what is in flight when partitions are revoked, before the last commit."""
    drain_seconds: PositiveFloat = 30.0
    """To finish what is in flight on SIGTERM."""
