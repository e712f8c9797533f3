"""Rights that are taken away while workers run: what needs them waits, is named, and goes on when they are back."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from consumer.errors import DependencyUnavailable, Hindrance
from consumer.records import TopicPartition
from tests.contract.clusters import BrokerCluster, Receiver
from tests.contract.test_record_source import fetch_until, joined
from tests.integration.cases.case import SESSION_SECONDS, MakeCase, requests
from tests.integration.cases.watched import Watched, watched
from tests.services.acls import ALL, AUTHORIZER, DESCRIBE, GROUP, READ, TOPIC, WRITE, Rules
from tests.services.kafka import KafkaNode

pytestmark = pytest.mark.kafka

IN_THE_LANE = 16
SMALL: dict[str, object] = {
    "engine.max_num_seqs": 2,
    "micro_batch.max_records": 4,
    "limits.lane_records": IN_THE_LANE,
}
"""So that a lane is full soon."""


@pytest_asyncio.fixture(scope="module")
async def guarded_kafka(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KafkaNode]:
    """A broker that knows what is forbidden."""
    node = KafkaNode(tmp_path_factory.mktemp("guarded"), {"group.min.session.timeout.ms": "1000"} | AUTHORIZER)
    await node.start()
    yield node
    await node.kill()


class Guarded:
    """A deployment of one worker, whose rights can be taken away, and what was published to it."""

    def __init__(self, watched: Watched) -> None:
        self.case, self.worker, self.until_unready = watched.case, watched.worker, watched.until_unready
        self._watched = watched
        self._published = 0

    def rules(self, kind: int, name: str) -> Rules:
        return Rules(self.case.kafka.bootstrap_servers, kind, name)

    async def publish(self, count: int) -> None:
        """On partition 0."""
        await self.case.publish(requests(count, first=self._published))
        self._published += count

    async def until_well(self) -> None:
        """Ready, and everything is answered, committed, and no dead letter."""
        tally = (await self._watched.until_well()).tally
        assert (tally.requests, tally.results, tally.dead_letters) == (self._published, self._published, 0)
        assert self.worker.exit_code is None


@pytest_asyncio.fixture
async def guarded(guarded_kafka: KafkaNode, make_case: MakeCase) -> Guarded:
    return Guarded(await watched(await make_case(kafka=guarded_kafka, settings=SMALL)))


async def test_without_the_right_to_write_results_or_to_read_requests_they_wait_where_they_are(
    guarded: Guarded,
) -> None:
    await guarded.publish(5)
    await guarded.until_well()
    rules = guarded.rules(TOPIC, guarded.case.place.topics.results)
    await rules.forbid(WRITE)
    await guarded.publish(5)
    await guarded.until_unready("lane_held", "results topic")
    assert guarded.case.offsets.latest[0] == 5
    await rules.allow(WRITE)
    await guarded.until_well()

    rules = guarded.rules(TOPIC, guarded.case.place.topics.requests)
    await rules.forbid(READ)
    await guarded.publish(5)
    await guarded.until_unready("source_refused: reading: TopicAuthorizationFailedError")
    await rules.allow(READ)
    await guarded.until_well()
    assert await guarded.worker.stop() == 0


async def test_without_the_right_to_be_in_the_group_for_longer_than_a_session_nothing_is_lost(
    guarded: Guarded,
) -> None:
    """With lanes so full that nothing is asked of Kafka any more."""
    await guarded.publish(5)
    await guarded.until_well()
    rules = guarded.rules(GROUP, guarded.case.place.name)
    await rules.forbid(READ)
    await guarded.until_unready("source_refused: group: GroupAuthorizationFailedError")
    await guarded.publish(10 * IN_THE_LANE)
    await guarded.until_unready("commits_refused", "GroupAuthorizationFailedError")
    await asyncio.sleep(SESSION_SECONDS + 2)
    await guarded.until_unready("source_refused: group: GroupAuthorizationFailedError")
    await rules.allow(READ)
    await guarded.until_well()
    assert await guarded.worker.stop() == 0


async def test_a_topic_that_cannot_be_seen_any_more_is_told_and_comes_back(guarded_kafka: KafkaNode) -> None:
    """Its leader gives nobody a partition then: a member without any is not well for that."""
    cluster = BrokerCluster(guarded_kafka.bootstrap_servers)
    await cluster.create(1)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    rules = Rules(guarded_kafka.bootstrap_servers, TOPIC, cluster.topic)
    await rules.forbid(ALL)
    await source._consumer._client.force_metadata_update()
    await fetch_until(source, receiver, lambda: not source.assignment() and bool(source.hindrances()))
    assert "TopicAuthorizationFailedError" in source.hindrances()[Hindrance.SOURCE_REFUSED]
    await rules.allow(ALL)
    await cluster.publish(0, [b"x"])
    await fetch_until(source, receiver, lambda: bool(receiver.records))
    assert source.hindrances() == {}
    await cluster.close()


async def test_committed_offsets_that_may_not_be_seen_are_a_dependency_that_is_away(guarded_kafka: KafkaNode) -> None:
    """aiokafka gives that refusal no type of its own; a worker that begins just then must not end."""
    cluster = BrokerCluster(guarded_kafka.bootstrap_servers)
    await cluster.create(1)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    rules = Rules(guarded_kafka.bootstrap_servers, TOPIC, cluster.topic)

    async def until_refused() -> None:
        async with asyncio.timeout(30):
            while True:  # the broker heeds a rule a moment after it has taken it
                assert await source.committed(TopicPartition(cluster.topic, 0)) is None

    await rules.forbid(DESCRIBE)
    with pytest.raises(DependencyUnavailable, match="TopicAuthorizationFailedError"):
        await until_refused()
    await cluster.close()


async def test_who_may_not_join_yet_says_so_and_joins_when_it_may(guarded_kafka: KafkaNode) -> None:
    cluster = BrokerCluster(guarded_kafka.bootstrap_servers)
    await cluster.create(1)
    rules = Rules(guarded_kafka.bootstrap_servers, GROUP, cluster.kafka.group_id)
    await rules.forbid(READ)
    source, receiver = cluster.source(), Receiver()
    await source.join(receiver.assigned, receiver.revoked)
    await fetch_until(source, receiver, lambda: bool(source.hindrances()))
    assert "GroupAuthorizationFailedError" in source.hindrances()[Hindrance.SOURCE_REFUSED]
    assert source.failure() is None
    await rules.allow(READ)
    await fetch_until(source, receiver, lambda: len(source.assignment()) == 1)
    assert source.hindrances() == {}
    await cluster.close()
