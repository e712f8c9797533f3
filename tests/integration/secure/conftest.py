"""A broker that wants to know who comes, and deployments on it that may do what docs/secure.md allows."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from producer_tools.connections.kafka import Brokers
from tests.integration.cases.case import Case, MakeCase
from tests.services.acls import documented_rules, grant
from tests.services.secured_kafka import OTHER_USERS, USER, SecuredKafka
from tests.services.secured_redis import SecuredRedis

REAUTHENTICATION_SECONDS = 3

MakeSecuredCase = Callable[..., Awaitable[Case]]


@pytest_asyncio.fixture(scope="session")
async def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SecuredKafka]:
    """By SASL_SSL it takes no connection for longer than REAUTHENTICATION_SECONDS."""
    reauthentication = {"listener.name.sasl_ssl.connections.max.reauth.ms": str(1000 * REAUTHENTICATION_SECONDS)}
    quick = {"group.min.session.timeout.ms": "1000"}
    node = SecuredKafka(tmp_path_factory.mktemp("secured-kafka"), quick | reauthentication)
    await node.start()
    yield node
    await node.kill()


@pytest_asyncio.fixture(scope="session")
async def secured_redis(redis_7: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SecuredRedis]:
    node = SecuredRedis(tmp_path_factory.mktemp("secured-redis"))
    await node.start()
    yield node
    await node.stop()


@pytest.fixture
def make_secured_case(make_case: MakeCase, secured_kafka: SecuredKafka) -> MakeSecuredCase:
    """A deployment whose workers come as `brokers` says, and may do what the documentation allows a worker."""

    async def make(brokers: Brokers, settings: dict[str, object] | None = None) -> Case:
        security = brokers.security.model_dump(exclude_defaults=True)
        wanted: dict[str, object] = {"kafka.bootstrap_servers": brokers.bootstrap_servers}
        for name, value in security.items():
            wanted[f"kafka.security.{name}"] = value.get_secret_value() if hasattr(value, "get_secret_value") else value
        case = await make_case(kafka=secured_kafka, settings=wanted | (settings or {}))
        topics = case.place.topics
        names = {
            "score.requests": topics.requests,
            "score.results": topics.results,
            "score.dead": topics.dead_letters,
            "scorestream": case.place.name,
        }
        for user in (USER, *OTHER_USERS):
            await grant(secured_kafka.bootstrap_servers, documented_rules(user, names))
        return case

    return make
