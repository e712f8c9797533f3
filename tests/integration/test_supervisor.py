"""`scorestream run --workers N` on Apache Kafka and Redis: real processes, seen from outside."""

import asyncio
import os
import signal
from collections import Counter

import pytest

from tests.chaos.generations import generation
from tests.integration.cases.case import PARTITIONS, Case, MakeCase, request, requests
from tests.services.process import wait_until
from tests.services.supervisor import SupervisorProcess, is_alive

pytestmark = pytest.mark.kafka

WORKERS = PARTITIONS


def supervisor(case: Case, **settings: object) -> SupervisorProcess:
    """Of WORKERS workers, one for each partition."""
    made = SupervisorProcess(case.folder / "supervisor", case.settings | settings, WORKERS)
    case.workers.append(made)
    return made


async def publish_everywhere(case: Case, count: int, document: str = "some words", first: int = 0) -> None:
    """So many requests on each partition."""
    for partition in range(PARTITIONS):
        await case.publish(requests(count, document, first=first + partition * 10_000), partition)


async def test_workers_join_in_one_rebalance_and_ctrl_c_in_the_terminal_drains_each_of_them_once(make_case: MakeCase):
    case = await make_case()
    await publish_everywhere(case, 100)
    all_of_them = supervisor(case)
    await all_of_them.start()
    await case.until_members(WORKERS)
    assert await generation(case.kafka.bootstrap_servers, case.place.name) <= 2
    assert [one["workers"] for one in all_of_them.told("workers join the group together")] == [[0, 1, 2, 3]]
    await case.until_all_committed()
    await publish_everywhere(case, 100, first=100)
    all_of_them.interrupt()
    assert await all_of_them.wait() == 0
    assert Counter(one["worker"] for one in all_of_them.told("draining")) == dict.fromkeys(range(WORKERS), 1)
    assert all(one["answered"] > 0 for one in all_of_them.told("totals"))
    case.workers.append(last := case.worker("last"))
    await last.start()
    await case.until_all_committed()
    assert await last.stop() == 0
    assert (await case.verified()).tally.duplicates == 0
