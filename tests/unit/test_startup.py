"""What start-up finds, and what it says to do: decisions over facts, without a broker."""

from dataclasses import replace

import pytest

from consumer.errors import SettingsInvalid
from consumer.key_prefix import CLAIMS_KEY
from consumer.sections import EngineKind, EngineSettings, KafkaSettings, RedisNotify, RedisSettings, WorkersSettings
from consumer.settings import Settings, load_settings
from consumer.startup import (
    Finding,
    GroupFacts,
    GroupMember,
    KafkaFacts,
    Level,
    PrefixClaim,
    RedisFacts,
    RedisRefused,
    Right,
    TopicFacts,
    Unreachable,
    check_codecs,
    check_kafka,
    check_redis,
    refuse,
)

SETTINGS = Settings(engine=EngineSettings(kind=EngineKind.SCRIPTED))
TOPIC = TopicFacts(partitions=8, cleanup_policy="delete", max_message_bytes=1_048_588)
REQUESTS, RESULTS, DEAD = "score.requests", "score.results", "score.dead"
GOOD = KafkaFacts("cluster", {REQUESTS: TOPIC, RESULTS: TOPIC, DEAD: TOPIC}, 6_000, 1_800_000)
GOOD_REDIS = RedisFacts("7.0.15")
OWNER = "cluster/score.requests/scorestream"


def with_topic(name: str, topic: TopicFacts | None) -> KafkaFacts:
    topics = {**GOOD.topics, name: topic}
    return replace(GOOD, topics={name: found for name, found in topics.items() if found is not None})


def failed(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings if not finding.ok}


def test_everything_in_order_refuses_nothing_and_names_every_check() -> None:
    findings = check_kafka(SETTINGS, GOOD) + check_codecs([]) + check_redis(SETTINGS, GOOD_REDIS, GOOD)
    refuse(findings)
    assert [finding.name for finding in findings] == [
        "kafka.broker",
        "kafka.request_topic",
        "kafka.result_topic",
        "kafka.dead_letter_topic",
        "kafka.group",
        "kafka.result_partitions",
        "kafka.request_topic.cleanup_policy",
        "kafka.result_topic.cleanup_policy",
        "kafka.dead_letter_topic.cleanup_policy",
        "kafka.result_topic.max_message_bytes",
        "kafka.dead_letter_topic.max_message_bytes",
        "kafka.session_timeout",
        "kafka.codecs",
        "redis.server",
        "redis.memory",
        "redis.prefix",
    ]


@pytest.mark.parametrize(
    ("facts", "name", "found", "fix"),
    [
        (Unreachable("kafka:9092: Connection refused"), "kafka.broker", "kafka:9092: Conn", "kafka.bootstrap_servers"),
        (with_topic(REQUESTS, None), "kafka.request_topic", "no topic score.requests", "--create --topic score.req"),
        (with_topic(RESULTS, None), "kafka.result_topic", "no topic score.results", "--partitions 8"),
        (with_topic(DEAD, None), "kafka.dead_letter_topic", "no topic score.dead", "--create --topic score.dead"),
        (
            replace(GOOD, missing_rights=(Right("Write", "topic", RESULTS),)),
            "kafka.rights.topic",
            "refuse Write on the topic score.results",
            "--operation Write --topic score.results",
        ),
        (
            Unreachable("kafka:9093: refuses the user x", "set the password right"),
            "kafka.broker",
            "refuses the user x",
            "set the password right",
        ),
        (
            with_topic(RESULTS, replace(TOPIC, partitions=7)),
            "kafka.result_partitions",
            "score.results has 7 partitions, score.requests has 8",
            "--alter --topic score.results --partitions 8",
        ),
        (
            with_topic(REQUESTS, replace(TOPIC, cleanup_policy="compact")),
            "kafka.request_topic.cleanup_policy",
            "removes requests whose keys repeat",
            "--entity-name score.requests --add-config cleanup.policy=delete",
        ),
        (
            with_topic(REQUESTS, replace(TOPIC, cleanup_policy="delete,compact")),
            "kafka.request_topic.cleanup_policy",
            "cleanup.policy=delete,compact",
            "cleanup.policy=delete",
        ),
        (
            with_topic(RESULTS, replace(TOPIC, cleanup_policy="compact,delete")),
            "kafka.result_topic.cleanup_policy",
            "cleanup.policy=compact,delete",
            "cleanup.policy=delete",
        ),
        (
            with_topic(DEAD, replace(TOPIC, cleanup_policy="compact")),
            "kafka.dead_letter_topic.cleanup_policy",
            "cleanup.policy=compact",
            "cleanup.policy=delete",
        ),
        (
            with_topic(RESULTS, replace(TOPIC, max_message_bytes=899_999)),
            "kafka.result_topic.max_message_bytes",
            "limits.chunk_bytes is 900000, score.results has max.message.bytes=899999",
            "limits.chunk_bytes to at most 899999",
        ),
        (replace(GOOD, max_session_timeout_ms=30_000), "kafka.session_timeout", "45 s", "session_timeout_seconds"),
        (replace(GOOD, min_session_timeout_ms=60_000), "kafka.session_timeout", "45 s", "session_timeout_seconds"),
    ],
)
def test_each_fault_is_one_finding_with_its_fix(
    facts: KafkaFacts | Unreachable, name: str, found: str, fix: str
) -> None:
    [(failed_name, finding)] = failed(check_kafka(SETTINGS, facts)).items()
    assert failed_name == name
    assert found in finding.found
    assert fix in finding.fix


@pytest.mark.parametrize(
    "facts",
    [
        with_topic(RESULTS, replace(TOPIC, partitions=9)),
        with_topic(DEAD, replace(TOPIC, partitions=1)),
        with_topic(RESULTS, replace(TOPIC, max_message_bytes=900_000)),
        with_topic(RESULTS, replace(TOPIC, cleanup_policy=None, max_message_bytes=None)),
        replace(GOOD, min_session_timeout_ms=None, max_session_timeout_ms=None),
    ],
    ids=["more results partitions", "one dead letter partition", "just fits", "unreadable", "-"],
)
def test_what_can_work_is_not_refused(facts: KafkaFacts) -> None:
    assert failed(check_kafka(SETTINGS, facts)) == {}


STRANGERS = tuple(GroupMember(f"billing-{number}", f"/10.0.0.{number}") for number in range(7))
WORKER = GroupMember("scorestream", "/10.0.0.9")


@pytest.mark.parametrize(
    ("group", "found"),
    [
        (
            GroupFacts("consumer", "range", STRANGERS[:1]),
            "its members (consumer, by the protocol range) are not all workers: billing-0 at 10.0.0.0; they get",
        ),
        (GroupFacts("consumer", "", STRANGERS), "billing-4 at 10.0.0.4 and 2 more"),
        (GroupFacts("connect", "sessioned", STRANGERS[:1]), "its members (connect, by the protocol sessioned)"),
        (GroupFacts("share", "", None), "it is of the kind share, which no worker can join"),
    ],
)
def test_who_is_in_the_group_and_no_worker_is_named(group: GroupFacts, found: str) -> None:
    [(name, finding)] = failed(check_kafka(SETTINGS, replace(GOOD, group=group))).items()
    assert name == "kafka.group"
    assert found in finding.found
    assert "kafka.group_id" in finding.fix
    assert "--describe --members --group scorestream" in finding.fix


def test_a_stranger_beside_workers_is_a_warning_for_another_worker_can_join() -> None:
    facts = replace(GOOD, group=GroupFacts("consumer", "sticky", (WORKER, STRANGERS[0])))
    [finding] = [one for one in check_kafka(SETTINGS, facts) if one.name == "kafka.group"]
    assert finding.level is Level.WARN
    assert "billing-0 at 10.0.0.0" in finding.found
    assert "kafka.group_id" in finding.fix


@pytest.mark.parametrize(
    ("group", "found"),
    [
        (GroupFacts("", "", ()), "no members"),
        (GroupFacts("consumer", "", ()), "no members"),
        (GroupFacts("consumer", "sticky", (WORKER, WORKER)), "2 members, all of them workers"),
    ],
)
def test_a_group_of_workers_or_of_nobody_is_in_order(group: GroupFacts, found: str) -> None:
    [finding] = [one for one in check_kafka(SETTINGS, replace(GOOD, group=group)) if one.name == "kafka.group"]
    assert (finding.level, finding.found) == (Level.OK, f"scorestream has {found}")


def test_a_group_that_may_not_be_seen_is_a_warning() -> None:
    [finding] = [one for one in check_kafka(SETTINGS, replace(GOOD, group=None)) if one.name == "kafka.group"]
    assert finding.level is Level.WARN
    assert "--operation Describe --group scorestream" in finding.fix


def test_a_cleanup_policy_that_may_not_be_read_is_a_warning() -> None:
    findings = check_kafka(SETTINGS, with_topic(REQUESTS, replace(TOPIC, cleanup_policy=None)))
    [warning] = [finding for finding in findings if finding.ok and finding.fix]
    assert (warning.name, warning.level) == ("kafka.request_topic.cleanup_policy", Level.WARN)
    assert "were score.requests compacted, requests would be lost" in warning.found
    assert "--operation DescribeConfigs --topic score.requests" in warning.fix


def test_all_missing_topics_are_told_at_once() -> None:
    names = failed(check_kafka(SETTINGS, replace(GOOD, topics={})))
    assert list(names) == ["kafka.request_topic", "kafka.result_topic", "kafka.dead_letter_topic"]


def test_missing_codecs_are_named() -> None:
    finding = failed(check_codecs(["lz4", "zstd"]))["kafka.codecs"]
    assert "lz4, zstd" in finding.found
    assert "aiokafka[snappy,lz4,zstd]" in finding.fix


@pytest.mark.parametrize(
    ("facts", "name", "found", "fix"),
    [
        (Unreachable("redis:6379: refused"), "redis.server", "redis:6379: refused", "redis.url"),
        (RedisRefused("redis:6379: WRONGPASS"), "redis.server", "WRONGPASS", "password"),
        (replace(GOOD_REDIS, role="slave"), "redis.server", "a replica", "redis+sentinel://"),
        (replace(GOOD_REDIS, mode="cluster"), "redis.server", "a node of a cluster", "redis+cluster://"),
        (replace(GOOD_REDIS, mode="sentinel"), "redis.server", "a Sentinel", "redis+sentinel://"),
        (
            replace(GOOD_REDIS, forbidden=(("SET", "score:*"), ("PUBLISH", "score:*"))),
            "redis.rights",
            "SET, PUBLISH on score:*",
            "~score:* &score:* +set +publish",
        ),
        (
            replace(GOOD_REDIS, forbidden=(("HSET", CLAIMS_KEY), ("TIME", "")), claims=None),
            "redis.rights",
            "HSET, TIME on scorestream:prefixes",
            "~scorestream:prefixes +hset +time",
        ),
        (RedisRefused("redis:6379: no EVALSHA", "have it take EVALSHA"), "redis.server", "no EVALSHA", "take EVALSHA"),
        (replace(GOOD_REDIS, version="4.0.14"), "redis.server", "4.0.14, older than 5.0", "upgrade Redis to 5.0"),
        (
            RedisFacts("7.0.15", (PrefixClaim("score:", "other/topic/group", 7.0),)),
            "redis.prefix",
            "score: is claimed by other/topic/group (last seen 7 seconds ago)",
            "HDEL scorestream:prefixes score:; redis-cli DEL scorestream:owner:score:",
        ),
        (
            replace(GOOD_REDIS, max_memory_bytes=800_000, own_memory_bytes=900_000),
            "redis.memory",
            "every write fails",
            "raise maxmemory",
        ),
    ],
)
def test_each_redis_fault_is_one_finding_with_its_fix(
    facts: RedisFacts | RedisRefused | Unreachable, name: str, found: str, fix: str
) -> None:
    [(failed_name, finding)] = failed(check_redis(SETTINGS, facts, GOOD)).items()
    assert failed_name == name
    assert found in finding.found
    assert fix in finding.fix


def test_the_owner_may_come_back_to_its_prefix() -> None:
    assert failed(check_redis(SETTINGS, RedisFacts("7.0.15", (PrefixClaim("score:", OWNER),)), GOOD)) == {}


def test_without_a_cluster_nobody_can_say_whose_prefix_it_is() -> None:
    findings = check_redis(SETTINGS, RedisFacts("7.0.15", (PrefixClaim("score:", "other"),)), Unreachable("down"))
    assert [finding.name for finding in findings] == ["redis.server", "redis.memory"]


@pytest.mark.parametrize(("version", "refused"), [("6.2.14", True), ("7.0.0", False), ("8.2.1", False)])
def test_sharded_notifications_need_a_redis_that_has_them(version: str, refused: bool) -> None:
    settings = SETTINGS.model_copy(update={"redis": RedisSettings(notify=RedisNotify.SPUBLISH)})
    assert ("redis.notify" in failed(check_redis(settings, RedisFacts(version), GOOD))) is refused


def test_a_refusal_lists_every_fault_on_a_line_of_its_own() -> None:
    findings = [Finding("a", ok=False, found="x", fix="do y"), Finding("b", ok=True, found="z")]
    findings += check_kafka(SETTINGS, with_topic(DEAD, None))
    with pytest.raises(SettingsInvalid) as refusal:
        refuse(findings)
    first, second = str(refusal.value).splitlines()
    assert first == "a: x: do y"
    assert second.startswith("kafka.dead_letter_topic: there is no topic score.dead")


def test_the_owner_names_cluster_topic_and_group() -> None:
    assert GOOD.prefix_owner(KafkaSettings(request_topic="t", group_id="g")) == "cluster/t/g"


def test_memory_of_redis_is_put_beside_rate_times_ttl_times_size() -> None:
    settings = load_settings({"engine.kind": "scripted", "redis.ttl_seconds": 3600})
    facts = RedisFacts("7.0", max_memory_bytes=360_000_000, eviction_policy="noeviction")
    [memory] = [
        one for one in check_redis(settings, facts, Unreachable("kafka:9092: refused")) if one.name == "redis.memory"
    ]
    assert "enough for 100 requests/s" in memory.found
    assert "writes fail" in memory.found


@pytest.mark.parametrize(
    ("megabytes", "used", "policy", "level", "found"),
    [
        (2, 1, "noeviction", Level.WARN, "enough for 0.31 requests/s"),
        (36, 1, "noeviction", Level.WARN, "enough for 10 requests/s"),
        (37, 1, "noeviction", Level.OK, "enough for 10 requests/s"),
        (370, 370, "noeviction", Level.WARN, "full just now"),
        (370, 370, "volatile-ttl", Level.OK, "results go before their time"),
        (0, 1, "noeviction", Level.OK, "there is no maxmemory"),
    ],
)
def test_a_redis_with_little_room_is_worth_a_warning(
    megabytes: int, used: int, policy: str, level: Level, found: str
) -> None:
    """Below 10 requests/s, results kept for their time; or none at all just now."""
    facts = RedisFacts("7.0.15", (), megabytes * 10**6, 900_000, (megabytes - used) * 10**6, policy)
    [memory] = [finding for finding in check_redis(SETTINGS, facts, GOOD) if finding.name == "redis.memory"]
    assert memory.level is level
    assert found in memory.found
    assert bool(memory.fix) is (level is Level.WARN)


@pytest.mark.parametrize(
    ("workers", "level", "found"),
    [
        (4, Level.OK, "8 partitions for 4 workers: 2 each"),
        (3, Level.WARN, "8 partitions for 3 workers: 2 each, and one more for 2 of them"),
        (9, Level.WARN, "8 partitions for 9 workers: 0 each, and one more for 8 of them"),
    ],
)
def test_partitions_that_workers_cannot_share_equally_are_worth_a_warning(
    workers: int, level: Level, found: str
) -> None:
    settings = SETTINGS.model_copy(update={"workers": WorkersSettings(count=workers)})
    [finding] = [one for one in check_kafka(settings, GOOD) if one.name == "workers.count"]
    assert (finding.level, finding.found) == (level, found)
    refuse([finding])
