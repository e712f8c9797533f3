"""What is looked at of Redis."""

from __future__ import annotations

import re
from collections.abc import Sequence

from consumer.key_prefix import deletion, overlap
from consumer.sections import RedisNotify
from consumer.settings import Settings
from consumer.startup.facts import Finding, KafkaFacts, PrefixClaim, RedisFacts, RedisRefused, Unreachable

LOWEST_VERSION = (5, 0)
"""Before it a script may not write once it has asked for the time."""
FEW_REQUESTS = 10
"""Per second: a Redis that holds the results of fewer is small for any worker, one without a GPU included."""
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
        fix = facts.fix or "set the user, password and database right, and give the user the rights of docs/secure.md"
        return [Finding("redis.server", ok=False, found=facts.reason, fix=fix)]
    findings = [
        _check_server(settings.redis.url.get_secret_value(), facts),
        _check_memory(settings, facts),
        *_check_rights(settings.redis.prefix, facts),
    ]
    if settings.redis.notify is RedisNotify.SPUBLISH and int(facts.version.split(".")[0]) < _SPUBLISH_SINCE:
        found = f"redis.notify is spublish, which Redis has since version {_SPUBLISH_SINCE}"
        findings.append(Finding("redis.notify", ok=False, found=found, fix="set redis.notify to publish"))
    if isinstance(kafka, KafkaFacts) and facts.claims is not None:
        owner = kafka.prefix_owner(settings.kafka)
        findings.append(check_prefix(settings.redis.prefix, owner, facts.claims))
    return findings


def check_prefix(prefix: str, owner: str, claims: Sequence[PrefixClaim]) -> Finding:
    """Two deployments whose keys can be the same overwrite each other's results; a shadow would, production's."""
    near = [claim for claim in claims if overlap(prefix, claim.prefix)]
    against = [claim for claim in near if (claim.prefix, claim.owner) != (prefix, owner)]
    if not against:
        return Finding("redis.prefix", ok=True, found=f"{prefix} is {f'claimed by {owner}' if near else 'free'}")
    claim = against[0]
    they = f"{_how_they_meet(prefix, claim.prefix)} is claimed by {claim.owner}{_seen(claim)}"
    return Finding(
        "redis.prefix",
        ok=False,
        found=f"{they}, this worker is {owner}",
        fix="set redis.prefix to one that neither begins with another's nor is the beginning of it; or, if no worker "
        f"of {claim.owner} runs with {claim.prefix} any more: {deletion(claim.prefix)}",
    )


def _how_they_meet(prefix: str, claimed: str) -> str:
    if prefix == claimed:
        return prefix
    longer, shorter = (prefix, claimed) if prefix.startswith(claimed) else (claimed, prefix)
    rest = longer.removeprefix(shorter)
    keys = f"the id {rest}x under {shorter} and the id x under {longer} are one key"
    return f"{prefix} {'begins with' if longer is prefix else 'is the beginning of'} {claimed} ({keys}), which"


def _seen(claim: PrefixClaim) -> str:
    """When a worker of it was last there, in the unit that fits."""
    if claim.seen_seconds is None:
        return ""
    for unit, seconds in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if claim.seen_seconds >= 2 * seconds:
            return f" (last seen {claim.seen_seconds / seconds:.0f} {unit} ago)"
    return f" (last seen {claim.seen_seconds:.0f} seconds ago)"


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
    elif (number := re.match(r"(\d+)\.(\d+)", facts.version)) and tuple(map(int, number.groups())) < LOWEST_VERSION:
        lowest = ".".join(map(str, LOWEST_VERSION))
        found = f"version {facts.version}, older than {lowest}"
        fix = f"upgrade Redis to {lowest} or newer"
    return Finding("redis.server", ok=not fix, found=found, fix=fix)


def _check_rights(prefix: str, facts: RedisFacts) -> list[Finding]:
    if not facts.forbidden:
        return []
    keys = dict.fromkeys(key for _, key in facts.forbidden if key)
    commands = dict.fromkeys(command for command, _ in facts.forbidden)
    patterns = [f"~{key}" for key in keys] + [f"&{prefix}*" for key in keys if key == f"{prefix}*"]
    on = f" on {', '.join(keys)}" if keys else ""
    return [
        Finding(
            "redis.rights",
            ok=False,
            found=f"the user may not run {', '.join(commands)}{on}",
            fix=f"ACL SETUSER with {' '.join([*patterns, *(f'+{command.lower()}' for command in commands)])}",
        )
    ]


def _check_memory(settings: Settings, facts: RedisFacts) -> Finding:
    """Room for nothing is refused. Room for few requests, and none just now, is worth a warning: results expire."""
    found = _memory_arithmetic(settings, facts)
    megabytes = facts.max_memory_bytes / 1e6
    if facts.max_memory_bytes == 0:
        return Finding("redis.memory", ok=True, found=found)
    if facts.max_memory_bytes <= facts.own_memory_bytes:
        found = f"maxmemory is {megabytes:.1f} MB, which Redis takes for itself, so every write fails"
        return Finding("redis.memory", ok=False, found=found, fix="raise maxmemory")
    fix = ""
    if facts.free_memory_bytes is not None and facts.free_memory_bytes <= 0 and facts.eviction_policy == "noeviction":
        found, fix = f"full just now; {found}", "raise maxmemory, or lower redis.ttl_seconds"
    elif _requests_per_second(settings, facts) < FEW_REQUESTS:
        fix = f"raise maxmemory, or lower redis.ttl_seconds, if more than a few requests come (below {FEW_REQUESTS}/s)"
    return Finding("redis.memory", ok=True, found=found, fix=fix)


def _requests_per_second(settings: Settings, facts: RedisFacts) -> float:
    """Whose results there is room for."""
    room_bytes = facts.max_memory_bytes - facts.own_memory_bytes
    return room_bytes / (settings.redis.ttl_seconds * TYPICAL_RESULT_BYTES)


def _memory_arithmetic(settings: Settings, facts: RedisFacts) -> str:
    """Rate x TTL x size against maxmemory. The size is a small rerank or score result with its key."""
    ttl_seconds = settings.redis.ttl_seconds
    megabytes = ttl_seconds * TYPICAL_RESULT_BYTES / 1e6
    need = (
        f"100 requests/s kept for {ttl_seconds} s take {100 * megabytes:,.0f} MB at {TYPICAL_RESULT_BYTES} bytes each"
    )
    if facts.max_memory_bytes == 0:
        return f"{need}; there is no maxmemory, so the machine's memory is the limit"
    rate = _requests_per_second(settings, facts)
    enough = f"{rate:,.0f}" if rate >= 1 else f"{rate:.2f}"
    full = (
        "when it is full, writes fail and partitions are held"
        if facts.eviction_policy == "noeviction"
        else "when it is full, results go before their time"
    )
    return (
        f"{need}; maxmemory is {facts.max_memory_bytes / 1e6:,.0f} MB, enough for {enough} requests/s "
        f"({facts.eviction_policy}: {full})"
    )
