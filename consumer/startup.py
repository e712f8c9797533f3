"""What is looked at before the worker joins the group, and what each finding says. Pure: adapters bring the facts.

`scorestream check` prints every finding; `scorestream run` refuses to start when one of them is not ok.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from consumer.errors import SettingsInvalid
from consumer.sections import KafkaSettings, RedisNotify
from consumer.settings import Settings

TYPICAL_RESULT_BYTES = 1000
"""Of a result with one score, its key and Redis's own bookkeeping. A vector of 384 numbers takes about 4500."""

CODECS = ("gzip", "snappy", "lz4", "zstd")
"""What a producer of requests may compress with; aiokafka finds out only when such a batch arrives, and then stops."""

_SPUBLISH_SINCE = 7
_DEFAULT_PARTITIONS = 48


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A server that did not answer or does not let us in; `reason` names each address tried and what happened there."""

    reason: str
    fix: str = ""
    """Where it is known better than that something should be there."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the broker describes it. None: the broker does not let us read it."""

    partitions: int
    cleanup_policy: str | None
    max_message_bytes: int | None


@dataclass(frozen=True, slots=True)
class KafkaFacts:
    """The cluster as it is. `topics`: those that exist; session timeout bounds in ms, None where not readable."""

    cluster_id: str
    topics: Mapping[str, TopicFacts]
    min_session_timeout_ms: int | None = None
    max_session_timeout_ms: int | None = None

    def prefix_owner(self, kafka: KafkaSettings) -> str:
        """Who owns the key prefix: one (cluster, topic, group)."""
        return f"{self.cluster_id}/{kafka.request_topic}/{kafka.group_id}"


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """Redis as it is. `prefix_owner`: who claimed the key prefix, None when nobody did.

    `max_memory_bytes`: 0 where there is no limit.
    """

    version: str
    prefix_owner: str | None
    max_memory_bytes: int = 0
    eviction_policy: str = "unknown"


@dataclass(frozen=True, slots=True)
class RedisRefused:
    """Redis answered and does not let us in, or not run what we need; `reason` in its own words."""

    reason: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. `fix` is empty when it is ok; a `fix` of what is ok is advice."""

    name: str
    ok: bool
    found: str
    fix: str = ""

    @property
    def verdict(self) -> str:
        """`ok  `, `warn` or `FAIL`."""
        if not self.ok:
            return "FAIL"
        return "warn" if self.fix else "ok  "


def refuse(findings: Iterable[Finding]) -> None:
    """Raises SettingsInvalid with every finding that is not ok, one per line."""
    failed = [f"{finding.name}: {finding.found}: {finding.fix}" for finding in findings if not finding.ok]
    if failed:
        raise SettingsInvalid("\n".join(failed))


def check_kafka(settings: Settings, facts: KafkaFacts | Unreachable) -> list[Finding]:
    """Broker, topics, partitions, cleanup policies, sizes, session timeout."""
    if isinstance(facts, Unreachable):
        return [
            Finding(
                "kafka.broker",
                ok=False,
                found=facts.reason,
                fix=facts.fix or "start the broker, or set kafka.bootstrap_servers to where it listens",
            )
        ]
    findings = [Finding("kafka.broker", ok=True, found=f"cluster {facts.cluster_id}")]
    findings += _check_existence(settings.kafka, facts)
    findings += _check_partitions(settings.kafka, facts)
    findings += _check_cleanup(settings.kafka, facts)
    findings += _check_sizes(settings, facts)
    findings += _check_session_timeout(settings.kafka, facts)
    findings += _check_shares(settings, facts)
    return findings


def check_codecs(missing: Sequence[str]) -> list[Finding]:
    """`missing`: which of CODECS cannot be used here."""
    if missing:
        found = f"cannot decompress {', '.join(missing)}"
        return [Finding("kafka.codecs", ok=False, found=found, fix="pip install 'aiokafka[snappy,lz4,zstd]'")]
    return [Finding("kafka.codecs", ok=True, found=", ".join(CODECS))]


def check_redis(
    settings: Settings, facts: RedisFacts | RedisRefused | Unreachable, kafka: KafkaFacts | Unreachable
) -> list[Finding]:
    """Redis answers, lets us in, and the key prefix is not somebody else's."""
    if isinstance(facts, Unreachable):
        fix = "start Redis, or set redis.url to where it listens"
        return [Finding("redis.server", ok=False, found=facts.reason, fix=fix)]
    if isinstance(facts, RedisRefused):
        fix = "set the user, password and database in redis.url, and let the user run GET, SET, PUBLISH and EVALSHA"
        return [Finding("redis.server", ok=False, found=facts.reason, fix=fix)]
    findings = [
        Finding("redis.server", ok=True, found=f"version {facts.version}"),
        Finding("redis.memory", ok=True, found=_memory_arithmetic(settings, facts)),
    ]
    if settings.redis.notify is RedisNotify.SPUBLISH and int(facts.version.split(".")[0]) < _SPUBLISH_SINCE:
        found = f"redis.notify is spublish, which Redis has since version {_SPUBLISH_SINCE}"
        findings.append(Finding("redis.notify", ok=False, found=found, fix="set redis.notify to publish"))
    if isinstance(kafka, KafkaFacts):
        owner = kafka.prefix_owner(settings.kafka)
        findings.append(check_prefix(settings.redis.prefix, owner, facts.prefix_owner))
    return findings


def check_prefix(prefix: str, owner: str, claimed_by: str | None) -> Finding:
    """Two deployments under one prefix overwrite each other's results; a shadow would overwrite production's."""
    if claimed_by in (None, owner):
        found = "free" if claimed_by is None else f"claimed by {owner}"
        return Finding("redis.prefix", ok=True, found=f"{prefix} is {found}")
    return Finding(
        "redis.prefix",
        ok=False,
        found=f"{prefix} is claimed by {claimed_by}, this worker is {owner}",
        fix=f"set redis.prefix to another prefix; or, if {claimed_by} is no more: redis-cli DEL {owner_key(prefix)}",
    )


def _memory_arithmetic(settings: Settings, facts: RedisFacts) -> str:
    """Rate x TTL x size against maxmemory. The size is a small rerank or score result with its key."""
    ttl_seconds = settings.redis.ttl_seconds
    megabytes = ttl_seconds * TYPICAL_RESULT_BYTES / 1e6
    need = (
        f"100 requests/s kept for {ttl_seconds} s take {100 * megabytes:,.0f} MB at {TYPICAL_RESULT_BYTES} bytes each"
    )
    if facts.max_memory_bytes == 0:
        return f"{need}; there is no maxmemory, so the machine's memory is the limit"
    rate = facts.max_memory_bytes / 1e6 / megabytes
    full = (
        "when it is full, writes fail and partitions are held"
        if facts.eviction_policy == "noeviction"
        else "when it is full, results go before their time"
    )
    return (
        f"{need}; maxmemory is {facts.max_memory_bytes / 1e6:,.0f} MB, enough for {rate:,.0f} requests/s "
        f"({facts.eviction_policy}: {full})"
    )


def owner_key(prefix: str) -> str:
    """The Redis key that names the owner of a key prefix."""
    return f"scorestream:owner:{prefix}"


def _check_existence(kafka: KafkaSettings, facts: KafkaFacts) -> list[Finding]:
    request = facts.topics.get(kafka.request_topic)
    partitions = request.partitions if request else _DEFAULT_PARTITIONS
    findings = []
    for setting, topic in _topics(kafka):
        if topic in facts.topics:
            found = f"{topic} has {facts.topics[topic].partitions} partitions"
            findings.append(Finding(f"kafka.{setting}", ok=True, found=found))
        else:
            found = f"there is no topic {topic}, or this client may not describe it"
            fix = (
                f"kafka-topics.sh --bootstrap-server {kafka.bootstrap_servers} --create --topic {topic} "
                f"--partitions {partitions}"
            )
            findings.append(Finding(f"kafka.{setting}", ok=False, found=found, fix=fix))
    return findings


def _check_partitions(kafka: KafkaSettings, facts: KafkaFacts) -> list[Finding]:
    request, result = facts.topics.get(kafka.request_topic), facts.topics.get(kafka.result_topic)
    if request is None or result is None:
        return []
    found = (
        f"{kafka.result_topic} has {result.partitions} partitions, {kafka.request_topic} has {request.partitions}, "
        "and every result goes to its request's partition number"
    )
    fix = (
        f"kafka-topics.sh --bootstrap-server {kafka.bootstrap_servers} --alter --topic {kafka.result_topic} "
        f"--partitions {request.partitions}"
    )
    enough = result.partitions >= request.partitions
    return [Finding("kafka.result_partitions", ok=enough, found=found, fix="" if enough else fix)]


def _check_shares(settings: Settings, facts: KafkaFacts) -> list[Finding]:
    """Workers of one machine are equally fast: who has a partition more than another is behind first."""
    workers, topic = settings.workers.count, facts.topics.get(settings.kafka.request_topic)
    if workers == 1 or topic is None:
        return []
    few, more = divmod(topic.partitions, workers)
    found = f"{topic.partitions} partitions for {workers} workers: {few} each"
    if more == 0:
        return [Finding("workers.count", ok=True, found=found)]
    fix = "set workers.count to a divisor of the partitions, so that no worker has one more than another"
    if few == 0:
        fix = f"set workers.count to at most {topic.partitions}: a worker without a partition has nothing to do"
    return [Finding("workers.count", ok=True, found=f"{found}, and one more for {more} of them", fix=fix)]


def _check_cleanup(kafka: KafkaSettings, facts: KafkaFacts) -> list[Finding]:
    findings = []
    for setting, topic in _topics(kafka)[1:]:
        policy = facts.topics[topic].cleanup_policy if topic in facts.topics else None
        if policy is None:
            continue
        compacted = "compact" in policy
        fix = (
            f"kafka-configs.sh --bootstrap-server {kafka.bootstrap_servers} --alter --entity-type topics "
            f"--entity-name {topic} --add-config cleanup.policy=delete"
        )
        found = f"{topic} has cleanup.policy={policy}"
        if compacted:
            found += ", and compaction removes answers whose keys repeat"
        findings.append(
            Finding(f"kafka.{setting}.cleanup_policy", ok=not compacted, found=found, fix=fix if compacted else "")
        )
    return findings


def _check_sizes(settings: Settings, facts: KafkaFacts) -> list[Finding]:
    findings = []
    chunk_bytes = settings.limits.chunk_bytes
    for setting, topic in _topics(settings.kafka)[1:]:
        limit = facts.topics[topic].max_message_bytes if topic in facts.topics else None
        if limit is None:
            continue
        fits = chunk_bytes <= limit
        found = f"limits.chunk_bytes is {chunk_bytes}, {topic} has max.message.bytes={limit}"
        fix = f"set limits.chunk_bytes to at most {limit}, or raise max.message.bytes of {topic}"
        findings.append(Finding(f"kafka.{setting}.max_message_bytes", ok=fits, found=found, fix="" if fits else fix))
    return findings


def _check_session_timeout(kafka: KafkaSettings, facts: KafkaFacts) -> list[Finding]:
    session_ms = round(kafka.session_timeout_seconds * 1000)
    low, high = facts.min_session_timeout_ms, facts.max_session_timeout_ms
    if low is None or high is None:
        return []
    allowed = low <= session_ms <= high
    found = f"the setting is {session_ms / 1000:g} s, the broker allows {low / 1000:g} to {high / 1000:g} s"
    fix = "set kafka.session_timeout_seconds within the broker's bounds"
    return [Finding("kafka.session_timeout", ok=allowed, found=found, fix="" if allowed else fix)]


def _topics(kafka: KafkaSettings) -> list[tuple[str, str]]:
    """(setting, topic); the request topic first."""
    return [
        ("request_topic", kafka.request_topic),
        ("result_topic", kafka.result_topic),
        ("dead_letter_topic", kafka.dead_letter_topic),
    ]
