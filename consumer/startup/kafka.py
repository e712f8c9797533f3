"""What is looked at of the brokers and topics."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.sections import KafkaSettings
from consumer.settings import Settings
from consumer.startup.facts import Finding, KafkaFacts, Unreachable
from producer_tools.connections.settings import KafkaSecurity

CODECS = ("gzip", "snappy", "lz4", "zstd")
"""What a producer of requests may compress with; aiokafka finds out only when such a batch arrives, and then stops."""

_DEFAULT_PARTITIONS = 48


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
    findings += _check_rights(settings.kafka, facts)
    findings += _check_group(settings.kafka, facts)
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
        return [
            Finding("kafka.codecs", ok=False, found=found, fix="pip install 'aiokafka[snappy,lz4,zstd]' lz4 zstandard")
        ]
    return [Finding("kafka.codecs", ok=True, found=", ".join(CODECS))]


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
            if kafka.security != KafkaSecurity():
                fix += "; or, if there is one, the rights of docs/secure.md"
            findings.append(Finding(f"kafka.{setting}", ok=False, found=found, fix=fix))
    return findings


def _check_rights(kafka: KafkaSettings, facts: KafkaFacts) -> list[Finding]:
    principal = _principal(kafka)
    return [
        Finding(
            f"kafka.rights.{right.kind}",
            ok=False,
            found=f"the brokers refuse {right.operation} on the {right.kind} {right.name}",
            fix=f"kafka-acls.sh --bootstrap-server {kafka.bootstrap_servers} --add --allow-principal {principal} "
            f"--operation {right.operation} --{right.kind} {right.name}",
        )
        for right in facts.missing_rights
    ]


def _check_group(kafka: KafkaSettings, facts: KafkaFacts) -> list[Finding]:
    if any(right.kind == "group" for right in facts.missing_rights):
        return []
    if facts.group is None:
        fix = (
            f"kafka-acls.sh --bootstrap-server {kafka.bootstrap_servers} --add --allow-principal {_principal(kafka)} "
            f"--operation Describe --group {kafka.group_id}"
        )
        found = f"who is in the group {kafka.group_id} the brokers do not say"
        return [Finding("kafka.group", ok=True, found=found, fix=fix)]
    if strangers := facts.group.strangers():
        # Beside workers that run, another one is let in, and to keep it out would only leave fewer of them.
        joinable, found = facts.group.has_workers, group_taken(kafka, strangers)
        return [Finding("kafka.group", ok=joinable, found=found, fix=group_fix(kafka))]
    count = len(facts.group.members or ())
    members = f"{count} members, all of them workers" if count else "no members"
    return [Finding("kafka.group", ok=True, found=f"{kafka.group_id} has {members}")]


def group_taken(kafka: KafkaSettings, strangers: str) -> str:
    """What is wrong with a group that is not the workers' alone."""
    return f"the group {kafka.group_id} is not the workers' alone: {strangers}; they get requests and answer none"


def group_fix(kafka: KafkaSettings) -> str:
    """What to do about it."""
    return (
        "stop those members, or set kafka.group_id to a group of the workers' own; kafka-consumer-groups.sh "
        f"--bootstrap-server {kafka.bootstrap_servers} --describe --members --group {kafka.group_id}"
    )


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
    for setting, topic in _topics(kafka):
        if topic not in facts.topics:
            continue
        name, policy = f"kafka.{setting}.cleanup_policy", facts.topics[topic].cleanup_policy
        removed = "requests" if setting == "request_topic" else "answers"
        if policy is None:
            found = f"the brokers do not let this client read it: were {topic} compacted, {removed} would be lost"
            fix = (
                f"kafka-acls.sh --bootstrap-server {kafka.bootstrap_servers} --add --allow-principal "
                f"{_principal(kafka)} --operation DescribeConfigs --topic {topic}"
            )
            findings.append(Finding(name, ok=True, found=found, fix=fix))
        elif "compact" in policy:
            found = f"{topic} has cleanup.policy={policy}, and compaction removes {removed} whose keys repeat"
            fix = (
                f"kafka-configs.sh --bootstrap-server {kafka.bootstrap_servers} --alter --entity-type topics "
                f"--entity-name {topic} --add-config cleanup.policy=delete"
            )
            findings.append(Finding(name, ok=False, found=found, fix=fix))
        else:
            findings.append(Finding(name, ok=True, found=f"{topic} has cleanup.policy={policy}"))
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


def _principal(kafka: KafkaSettings) -> str:
    """As kafka-acls.sh names this worker."""
    return f"User:{kafka.security.username or 'WORKER'}"


def _topics(kafka: KafkaSettings) -> list[tuple[str, str]]:
    """(setting, topic); the request topic first."""
    return [
        ("request_topic", kafka.request_topic),
        ("result_topic", kafka.result_topic),
        ("dead_letter_topic", kafka.dead_letter_topic),
    ]
