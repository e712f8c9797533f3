"""Connections that end when their time is over, and credentials that change or fail, while a worker runs."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from producer_tools.connections.kafka import Brokers
from producer_tools.connections.settings import SaslMechanism
from tests.integration.cases.case import PARTITIONS, requests, under_load
from tests.integration.cases.watched import Watched, watched
from tests.integration.secure.conftest import MakeSecuredCase
from tests.services.process import wait_until
from tests.services.secured_kafka import PASSWORD, USER, SecuredKafka, unsigned_token
from tests.services.token_server import Token, TokenServer
from tests.services.worker import WorkerProcess

pytestmark = pytest.mark.kafka

PROVIDER = {"token_provider": "tests.services.secured_kafka:unsigned_token", "username": None, "password": None}
TOKEN_SECONDS = 4.0
ENDED = ("Failed fetch messages", "Marking the coordinator dead")
"""What aiokafka tells of the end of the connection that it reads on, and of its group's."""


@pytest.fixture
def run_as(make_secured_case: MakeSecuredCase) -> Callable[[Brokers], Awaitable[Watched]]:
    async def run(brokers: Brokers) -> Watched:
        return await watched(await make_secured_case(brokers))

    return run


def told_by_the_client(worker: WorkerProcess, *words: str) -> bool:
    """All of these. Of what comes again and again the log has one line a minute: whether, not how often."""
    events = [str(event.get("event")) for event in worker.events()]
    return all(any(one in event for event in events) for one in words)


@pytest.mark.parametrize(
    ("mechanism", "credentials"),
    [(SaslMechanism.SCRAM_SHA_512, {}), (SaslMechanism.OAUTHBEARER, PROVIDER)],
    ids=["SCRAM", "OAUTHBEARER"],
)
async def test_connections_that_the_broker_ends_cost_nothing_and_nobody_leaves_the_group(
    secured_kafka: SecuredKafka, run_as, mechanism: SaslMechanism, credentials: dict[str, object]
) -> None:
    """aiokafka does not authenticate again on a connection (KIP-368): the broker closes it when its time is over."""
    running = await run_as(secured_kafka.brokers(mechanism, **credentials))
    async with under_load(running.case.load(PARTITIONS, 200)):
        await wait_until(lambda: told_by_the_client(running.worker, *ENDED), "connections end", every_seconds=0.2)
    assert (await running.until_well()).tally.duplicates == 0
    log = running.worker.log.read_text()
    assert "rejoining" not in log.lower()
    assert await running.worker.stop() == 0


async def test_a_changed_password_is_waited_for_and_taken_from_its_file(
    secured_kafka: SecuredKafka, run_as, tmp_path: Path
) -> None:
    mechanism, password_file = SaslMechanism.SCRAM_SHA_256, tmp_path / "password"
    password_file.write_text(f"{PASSWORD}\n")
    running = await run_as(secured_kafka.brokers(mechanism, password=None, password_file=password_file))
    await running.case.publish(requests(5))
    await running.until_well()
    try:
        await secured_kafka.set_password(mechanism, "rotated")
        await running.until_unready("authentication_failed", f"refuses the user {USER} by SCRAM-SHA-256")
        await running.case.publish(requests(5, first=5))
        (tmp_path / "next").write_text("rotated")
        os.replace(tmp_path / "next", password_file)  # noqa: PTH105 - as Kubernetes does it: in one step
        await running.until_well()
    finally:
        await secured_kafka.set_password(mechanism, PASSWORD)
    assert await running.worker.stop() == 0


async def test_a_token_endpoint_that_is_away_and_tokens_that_are_refused_are_waited_for(
    secured_kafka: SecuredKafka, run_as
) -> None:
    def away() -> Token | None:
        return None

    def refused() -> Token | None:
        return unsigned_token(lifetime_seconds=-60)

    own = secured_kafka.authority.sign("provider", ("localhost",))
    async with TokenServer("client", "client-secret", unsigned_token, TOKEN_SECONDS, own) as server:
        running = await run_as(
            secured_kafka.brokers(
                SaslMechanism.OAUTHBEARER, username="client", password="client-secret", token_endpoint=server.endpoint
            )
        )
        published = 0
        for give, condition, said in (
            (away, "token_unavailable", "no token"),
            (refused, "authentication_failed", "refuses the token by OAUTHBEARER"),
        ):
            server.give = give
            await running.until_unready(condition, said)
            await running.case.publish(requests(5, first=published))
            published += 5
            server.give = unsigned_token
            await running.until_well()
    assert await running.worker.stop() == 0
