"""`scorestream run --workers N` on Apache Kafka and Redis: real processes, seen from outside."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.generations import generation
from tests.integration.cases.case import DRAIN_SECONDS, PARTITIONS, Case, MakeCase, requests
from tests.services.probe import Probe, Scrape
from tests.services.process import is_alive, wait_until
from tests.services.supervisor import SupervisorProcess

pytestmark = pytest.mark.kafka

SLOW: dict[str, object] = {"engine.max_num_seqs": 4, "engine.scripted_seconds_per_step": 0.05}
"""So that there is something in flight."""
LONG_SESSION: dict[str, object] = {"kafka.session_timeout_seconds": 20}
"""Where nobody dies it costs nothing, and a busy machine may send a heartbeat late."""


def supervisor(case: Case, workers: int) -> SupervisorProcess:
    """Not started yet."""
    made = SupervisorProcess(case.folder / "supervisor", case.settings, workers)
    case.workers.append(made)
    return made


async def publish_everywhere(case: Case, count: int, first: int, document: str = "some words") -> None:
    """So many requests on each partition."""
    for partition in range(PARTITIONS):
        await case.publish(requests(count, document, first=first + partition * count), partition)


async def assert_all_was_committed_once(case: Case) -> None:
    """What is left is done by a worker that comes later, and nothing is there twice."""
    last = await case.started("last", {"engine.scripted_seconds_per_step": 0})
    await case.until_all_committed()
    assert await last.stop() == 0
    assert (await case.verified()).tally.duplicates == 0


async def test_workers_join_in_one_rebalance_and_ctrl_c_in_the_terminal_drains_each_of_them_once(make_case: MakeCase):
    case = await make_case(settings=LONG_SESSION | SLOW)
    workers = PARTITIONS
    together = supervisor(case, workers)
    await together.start()
    await case.until_members(workers)
    assert await generation(case.kafka.bootstrap_servers, case.place.name) <= 2
    assert [one["workers"] for one in together.told("workers join the group together")] == [[0, 1, 2, 3]]
    await publish_everywhere(case, 100, first=0)
    await case.results(50)
    scrape = Scrape(await together.metrics())
    assert scrape("workers", phase="running") == workers
    for worker in range(workers):
        assert scrape("partitions", worker=str(worker)) == 1
        assert scrape("received_records_total", worker=str(worker)) > 0
    together.interrupt()
    assert await together.wait() == 0
    assert Counter(one["worker"] for one in together.told("draining")) == dict.fromkeys(range(workers), 1)
    assert all(one["answered"] > 0 for one in together.told("totals")), "each had a partition"
    await assert_all_was_committed_once(case)


async def test_each_worker_logs_what_a_check_warns_of_and_starts(make_case: MakeCase):
    case = await make_case()
    together = supervisor(case, PARTITIONS - 1)
    await together.start()
    await case.until_members(PARTITIONS - 1)
    warned = [one for one in together.told("check") if one["name"] == "workers.count"]
    assert {one["worker"] for one in warned} == {*range(PARTITIONS - 1)}
    assert {one["level"] for one in warned} == {"warning"}
    assert {one["fix"] for one in warned} == {
        "set workers.count to a divisor of the partitions, so that no worker has one more than another"
    }
    assert await together.stop() == 0


async def test_when_the_supervisor_is_killed_its_workers_drain_and_end_by_themselves(make_case: MakeCase):
    case = await make_case(settings=LONG_SESSION | SLOW)
    together = supervisor(case, 2)
    await together.start()
    pids = (await together.ask()).pids
    await publish_everywhere(case, 100, first=0)
    await case.results(50)
    together.send(signal.SIGKILL)
    await wait_until(lambda: not any(map(is_alive, pids.values())), "the workers have ended", 2 * DRAIN_SECONDS)
    assert Counter(one["worker"] for one in together.told("totals")) == {0: 1, 1: 1}
    await assert_all_was_committed_once(case)


async def test_a_signal_to_every_process_drains_and_a_second_one_ends_them_all_at_once(make_case: MakeCase):
    """As systemd sends it. The first cannot be obeyed soon: the engine has something that takes longer."""
    case = await make_case(settings=LONG_SESSION | {"shutdown.drain_seconds": 60})
    together = supervisor(case, 2)
    await together.start()
    pids = (await together.ask()).pids
    await publish_everywhere(case, 1, first=0, document=" ".join(["!wait"] * 60))
    await Probe(together.port).until_in_engine(PARTITIONS)
    for pid in (together.pid, *pids.values()):
        os.kill(pid, signal.SIGTERM)
    await wait_until(lambda: len(together.told("draining")) == 2, "both drain")
    assert (await together.ask()).problem == "draining"
    together.send(signal.SIGTERM)
    assert await together.wait(30) == 1
    assert together.told("worker ended") == [], "nobody had quit before"
    await wait_until(lambda: not any(map(is_alive, pids.values())), "they are gone")


async def test_what_keeps_every_worker_from_starting_ends_the_supervisor_with_2(make_case: MakeCase, tmp_path: Path):
    case = await make_case()
    case.settings["kafka.request_topic"] = "not-there"
    together = supervisor(case, 2)
    together.spawn()
    assert await together.wait() == 2
    [end, *_] = together.told("worker ended")
    assert end["exit_code"] == 2
    assert "there is no topic not-there" in end["reason"]
    assert "there is no topic not-there" in together.told("giving up")[0]["reason"]
