"""How incidents are brought about, from outside. Each lasts as long as its block, and its cause is gone after it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from redis.asyncio import Redis

from producer_tools.connections.kafka import Brokers
from producer_tools.connections.settings import SaslMechanism
from producer_tools.kafka import open_publisher
from tests.chaos.deployment import under_load
from tests.chaos.incidents.scene import SETTINGS, Scene
from tests.chaos.load import POISON, Mix
from tests.services.acls import GROUP, READ, TOPIC, WRITE, Rules
from tests.services.kafka_proxy import Api
from tests.services.secured_kafka import PASSWORD, unsigned_token

COMMIT_SECONDS = 1.5 * float(str(SETTINGS["commit.timeout_seconds"]))

Strike = Callable[[Scene], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def repeated(action: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Again and again, while this lasts. Raises what it raises."""

    async def repeat() -> None:
        while True:
            await action()

    async with asyncio.TaskGroup() as repeating:
        task = repeating.create_task(repeat())
        yield
        task.cancel()


async def publish(scene: Scene, value: bytes) -> None:
    """One request, on partition 0."""
    async with open_publisher(Brokers(scene.place.bootstrap_servers), lambda _name: None) as publisher:
        await publisher.send(scene.place.topics.requests, value, name="one", partition=0)
        await publisher.flush()


# ---------------------------------------------------------------------------------------------- servers and rights


@asynccontextmanager
async def redis_away(scene: Scene) -> AsyncIterator[None]:
    await scene.redis.kill()
    try:
        yield
    finally:
        await scene.redis.start()


@asynccontextmanager
async def redis_full(scene: Scene) -> AsyncIterator[None]:
    async with Redis.from_url(scene.redis.url) as client:
        await client.config_set("maxmemory", "1")
        try:
            yield
        finally:
            await client.config_set("maxmemory", "0")


@asynccontextmanager
async def broker_away(scene: Scene) -> AsyncIterator[None]:
    await scene.kafka.kill()
    try:
        yield
    finally:
        await scene.kafka.start()


def forbidden(kind: int, name: Callable[[Scene], str], operation: int) -> Strike:
    """A right that is taken away from everybody."""

    @asynccontextmanager
    async def strike(scene: Scene) -> AsyncIterator[None]:
        rules = Rules(scene.place.bootstrap_servers, kind, name(scene))
        await rules.forbid(operation)
        yield
        await rules.allow(operation)

    return strike


results_refused = forbidden(TOPIC, lambda scene: scene.place.topics.results, WRITE)
requests_refused = forbidden(TOPIC, lambda scene: scene.place.topics.requests, READ)
group_refused = forbidden(GROUP, lambda scene: scene.place.name, READ)


@asynccontextmanager
async def dead_letters_refused(scene: Scene) -> AsyncIterator[None]:
    refused = forbidden(TOPIC, lambda scene: scene.place.topics.dead_letters, WRITE)
    async with refused(scene):
        await publish(scene, b"not JSON")
        yield


@asynccontextmanager
async def password_changed(scene: Scene) -> AsyncIterator[None]:
    """On the broker; then in the workers' file, too."""
    mechanism = SaslMechanism.SCRAM_SHA_512
    try:
        await scene.kafka.set_password(mechanism, "rotated")
        yield
    finally:
        await scene.kafka.set_password(mechanism, PASSWORD)


@asynccontextmanager
async def token_expired(scene: Scene) -> AsyncIterator[None]:
    """The provider gives out tokens whose time is over."""
    scene.tokens.give = lambda: unsigned_token(lifetime_seconds=-60)
    try:
        yield
    finally:
        scene.tokens.give = unsigned_token


@asynccontextmanager
async def provider_away(scene: Scene) -> AsyncIterator[None]:
    scene.tokens.give = lambda: None
    try:
        yield
    finally:
        scene.tokens.give = unsigned_token


@asynccontextmanager
async def fetches_unanswered(scene: Scene) -> AsyncIterator[None]:
    """Everything else is answered: the worker stays a member."""
    with scene.kafka.proxy.hold(Api.FETCH, scene.place.topics.requests):
        yield


@asynccontextmanager
async def commits_slow(scene: Scene) -> AsyncIterator[None]:
    """Each takes longer than the worker waits for it, and far less than a session."""
    with scene.kafka.proxy.delay(Api.OFFSET_COMMIT, scene.place.name, COMMIT_SECONDS):
        yield


@asynccontextmanager
async def transaction_open(scene: Scene) -> AsyncIterator[None]:
    """A producer's, on partition 0; the usual requests come behind it. Then its coordinator aborts it."""
    servers, name = scene.place.bootstrap_servers, scene.place.name
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=name, transaction_timeout_ms=600_000)
    async with producer:
        await producer.begin_transaction()
        await (await producer.send(scene.place.topics.requests, request("in a transaction"), partition=0))
        yield
        await producer.abort_transaction()


# ------------------------------------------------------------------------------------------------ requests


def asked(document: str) -> Strike:
    """One request that misbehaves."""

    @asynccontextmanager
    async def strike(scene: Scene) -> AsyncIterator[None]:
        await publish(scene, request(document))
        yield

    return strike


def request(document: str) -> bytes:
    """Of the task that all ask for."""
    return json.dumps({"id": "one", "task": "score", "query": "q", "document": document}).encode()


@asynccontextmanager
async def stuck(scene: Scene) -> AsyncIterator[None]:
    """A request that no worker gets past; then the group is put behind it, as the runbook says."""
    ends = await scene.place.ends(scene.place.topics.requests)
    await publish(scene, request("!ponder " * 600))
    yield
    for pod in scene.pods:
        await scene.take_down(pod)
    group = ("--group", scene.place.name, "--topic", f"{scene.place.topics.requests}:0")
    await scene.until(lambda: _is_empty(scene), "the group counts nobody in")
    where = await _offset_of(scene, b"!ponder", ends[0])
    arguments = ("--reset-offsets", "--to-offset", str(where + 1), "--execute")
    await scene.kafka.run_tool("kafka-consumer-groups.sh", *group, *arguments)
    for pod in scene.pods:
        scene.put_up(pod)


async def _offset_of(scene: Scene, word: bytes, first: int) -> int:
    """Of the record with this word, at or above `first`, on partition 0."""
    partition = TopicPartition(scene.place.topics.requests, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=scene.place.bootstrap_servers)
    await consumer.start()
    try:
        consumer.assign([partition])
        consumer.seek(partition, first)
        async for record in consumer:
            if word in record.value:
                return int(record.offset)
    finally:
        await consumer.stop()
    raise AssertionError("a consumer without an end has ended")


async def _is_empty(scene: Scene) -> bool:
    admin = AIOKafkaAdminClient(bootstrap_servers=scene.place.bootstrap_servers)
    await admin.start()
    try:
        [response] = await admin.describe_consumer_groups([scene.place.name])
        [group] = response.to_object()["groups"]
        return not group["members"]
    finally:
        await admin.close()


def flood(requests_per_second: float, mix: Mix) -> Strike:
    """More requests beside the usual ones."""

    @asynccontextmanager
    async def strike(scene: Scene) -> AsyncIterator[None]:
        async with under_load(scene.load(requests_per_second, mix)):
            yield

    return strike


@asynccontextmanager
async def another_model_asked(scene: Scene) -> AsyncIterator[None]:
    """Requests for a model that the workers do not have, until the breaker is turned off, as the runbook says."""
    value = b'{"id":"ID","task":"score","query":"q","document":"d","model":"another"}'
    async with flood(200, Mix(good=value))(scene):
        yield
    for pod in scene.pods:
        await scene.take_down(pod)
        pod.settings["breaker.share"] = 1
        scene.put_up(pod)


@asynccontextmanager
async def poisoned_again_and_again(scene: Scene) -> AsyncIterator[None]:
    """Each of them kills every engine that it comes to."""

    async def poison() -> None:
        await publish(scene, POISON)
        await asyncio.sleep(5)

    async with repeated(poison):
        yield


@asynccontextmanager
async def retention_outran(scene: Scene) -> AsyncIterator[None]:
    """Nobody reads for a while, and what came meanwhile is deleted."""
    [pod] = scene.pods
    topic = scene.place.topics.requests
    await scene.take_down(pod)
    before = await scene.place.ends(topic)

    async def grown() -> bool:
        ends = await scene.place.ends(topic)
        return all(ends[partition] > before[partition] + 5 for partition in before)

    await scene.until(grown, "requests wait")
    admin = AIOKafkaAdminClient(bootstrap_servers=scene.place.bootstrap_servers)
    await admin.start()
    ends = await scene.place.ends(topic)
    await admin.delete_records({TopicPartition(topic, one): RecordsToDelete(before_offset=ends[one]) for one in ends})
    await admin.close()
    scene.put_up(pod)
    yield
