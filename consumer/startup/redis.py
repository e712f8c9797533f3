"""What is looked at of Redis."""

from __future__ import annotations

from consumer.sections import RedisNotify
from consumer.settings import Settings
from consumer.startup.facts import Finding, KafkaFacts, RedisFacts, RedisRefused, Unreachable

TYPICAL_RESULT_BYTES = 1000
"""Of a result with one score, its key and Redis's own bookkeeping. A vector of 384 numbers takes about 4500."""

_SPUBLISH_SINCE = 7


def check_redis(
    settings: Settings, facts: RedisFacts | RedisRefused | Unreachable, kafka: KafkaFacts | Unreachable
) -> list[Finding]:
    """Redis answers, lets us in, and the key prefix is not somebody else's."""
    if isinstance(facts, Unreachable):
        fix = facts.fix or "start Redis, or set redis.url to where it listens"
        return [Finding("redis.server", ok=False, found=facts.reason, fix=fix)]
    if isinstance(facts, RedisRefused):
        fix = "set the user, password and database right, and give the user the rights of docs/secure.md"
        return [Finding("redis.server", ok=False, found=facts.reason, fix=fix)]
    findings = [
        _check_server(settings.redis.url.get_secret_value(), facts),
        Finding("redis.memory", ok=True, found=_memory_arithmetic(settings, facts)),
        *_check_rights(settings.redis.prefix, facts),
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


def _check_server(url: str, facts: RedisFacts) -> Finding:
    """What answers is what the URL says, and takes writes."""
    found, fix = f"version {facts.version}", ""
    if facts.mode == "cluster" and "+cluster:" not in url:
        found = "a node of a cluster, and redis.url names one server"
        fix = "write redis.url as redis+cluster://host:port,host:port (rediss+cluster with TLS)"
    elif facts.mode == "sentinel":
        found = "a Sentinel, and redis.url names a server"
        fix = "write redis.url as redis+sentinel://host:port,host:port/SERVICE/0"
    elif facts.role != "master":
        found = "a replica, which takes no writes"
        fix = "set redis.url to the master, or to the Sentinels: redis+sentinel://host:port,host:port/SERVICE/0"
    return Finding("redis.server", ok=not fix, found=found, fix=fix)


def _check_rights(prefix: str, facts: RedisFacts) -> list[Finding]:
    if not facts.forbidden:
        return []
    commands = " ".join(f"+{command.lower()}" for command in facts.forbidden)
    return [
        Finding(
            "redis.rights",
            ok=False,
            found=f"the user may not run {', '.join(facts.forbidden)} on {prefix}*",
            fix=f"ACL SETUSER with ~{prefix}* &{prefix}* {commands}",
        )
    ]


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
