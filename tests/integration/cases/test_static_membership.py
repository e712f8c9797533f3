"""Workers with an instance id: restarts that nobody notices, and an id that is used twice."""

import asyncio
import signal

import pytest

from tests.chaos.generations import generation
from tests.integration.cases.case import PARTITIONS, SESSION_SECONDS, Case, MakeCase, requests
from tests.services.process import wait_until
from tests.services.worker import WorkerProcess

pytestmark = pytest.mark.kafka


def instance(name: str) -> dict[str, object]:
    return {"kafka.group_instance_id": name}


async def answered(case: Case, total: int) -> None:
    """As many more requests on each partition as make `total` of them, answered and committed."""
    done = len(await case.results(0)) // PARTITIONS
    for partition in range(PARTITIONS):
        await case.publish(requests(total - done, first=1000 * partition + done), partition)
    await case.results(total * PARTITIONS)
    await case.until_all_committed()


def reason_of_end(worker: WorkerProcess) -> str:
    return next(str(event["reason"]) for event in worker.events() if event.get("event") == "stopped")


async def test_a_worker_whose_instance_id_another_takes_ends_with_2_and_says_why(make_case: MakeCase) -> None:
    case = await make_case()
    first, bystander = await asyncio.gather(
        case.started("first", instance("same")), case.started("bystander", instance("other"))
    )
    await case.until_members(2)
    await answered(case, 5)
    before = await generation(case.kafka.bootstrap_servers, case.place.name)
    second = await case.started("second", instance("same"))
    assert await first.wait() == 2
    reason = reason_of_end(first)
    assert "kafka.group_instance_id same is in use by another worker" in reason
    assert "give each worker an id of its own" in reason
    await answered(case, 10)
    assert second.exit_code is None
    assert bystander.exit_code is None
    assert await generation(case.kafka.bootstrap_servers, case.place.name) <= before + 1
    await case.verified()
    assert [await second.stop(), await bystander.stop()] == [0, 0]


async def test_of_two_workers_that_start_with_one_instance_id_one_stays(make_case: MakeCase) -> None:
    case = await make_case()
    workers = [case.worker(name, instance("same")) for name in ("one", "two")]
    for worker in workers:
        worker.spawn()
    await wait_until(lambda: any(worker.exit_code is not None for worker in workers), "one of them ends", 120)
    [ended] = [worker for worker in workers if worker.exit_code is not None]
    [stays] = [worker for worker in workers if worker is not ended]
    assert ended.exit_code == 2, ended.tail()
    assert "kafka.group_instance_id same" in reason_of_end(ended)
    await answered(case, 5)
    assert await generation(case.kafka.bootstrap_servers, case.place.name) <= 3
    assert await stays.stop() == 0


async def test_a_static_worker_that_was_frozen_beyond_its_session_is_no_duplicate(make_case: MakeCase) -> None:
    case = await make_case()
    worker = await case.started("frozen", instance("same"))
    await answered(case, 5)
    worker.send(signal.SIGSTOP)
    await asyncio.sleep(SESSION_SECONDS + 1)
    worker.send(signal.SIGCONT)
    await answered(case, 10)
    assert worker.exit_code is None
    await case.verified()
    assert await worker.stop() == 0


async def test_a_static_worker_that_comes_back_in_time_finds_its_partitions_and_moves_nobody(
    make_case: MakeCase,
) -> None:
    """The one that joined first leads the group: its return is the one that is most easily noticed."""
    case = await make_case(settings={"kafka.session_timeout_seconds": 30, "kafka.heartbeat_interval_seconds": 1})
    leader = await case.started("leader", instance("leader"))
    bystander = await case.started("bystander", instance("bystander"))
    await case.until_members(2)
    await answered(case, 5)
    before = await generation(case.kafka.bootstrap_servers, case.place.name)
    assert await leader.stop() == 0
    leader = await case.started("leader", instance("leader"))
    await answered(case, 10)
    assert await generation(case.kafka.bootstrap_servers, case.place.name) == before
    audit = await case.verified()
    assert audit.tally.duplicates == 0
    assert [await leader.stop(), await bystander.stop()] == [0, 0]
