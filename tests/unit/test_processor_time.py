"""Processor time beside busy time, and what a worker does, by name."""

import threading
import time
from pathlib import Path

import pytest

from consumer.lane import Held, Hold, Lane
from consumer.metrics.processor_time import EVENT_LOOP, OTHERS, ProcessorTimes
from consumer.metrics.readings import activity
from consumer.records import SourceRecord, TopicPartition
from tests.unit.observed import Observed


def schedstat(tasks: Path, thread: int, running: int, waiting: int) -> None:
    (tasks / str(thread)).mkdir(parents=True, exist_ok=True)
    (tasks / str(thread) / "schedstat").write_text(f"{running} {waiting} 7\n")


def test_the_event_loop_is_told_from_all_other_threads(tmp_path: Path) -> None:
    schedstat(tmp_path, 1, 2_000_000_000, 500_000_000)
    schedstat(tmp_path, 2, 3_000_000_000, 0)
    schedstat(tmp_path, 3, 4_000_000_000, 1_000_000_000)
    times = ProcessorTimes(tmp_path, event_loop=1).read()
    assert (times[EVENT_LOOP].running_seconds, times[EVENT_LOOP].waiting_seconds) == pytest.approx((2.0, 0.5))
    assert (times[OTHERS].running_seconds, times[OTHERS].waiting_seconds) == pytest.approx((7.0, 1.0))


def test_times_never_decrease_when_threads_end_or_their_numbers_come_again(tmp_path: Path) -> None:
    times = ProcessorTimes(tmp_path, event_loop=1)
    schedstat(tmp_path, 2, 3_000_000_000, 0)
    assert times.read()[OTHERS].running_seconds == pytest.approx(3.0)
    schedstat(tmp_path, 2, 1_000_000_000, 0)
    assert times.read()[OTHERS].running_seconds == pytest.approx(4.0)
    (tmp_path / "2" / "schedstat").unlink()
    schedstat(tmp_path, 1, 0, 0)
    assert times.read()[OTHERS].running_seconds == pytest.approx(4.0)


def test_a_system_that_does_not_say_has_no_times(tmp_path: Path) -> None:
    assert ProcessorTimes(tmp_path / "none").read() == {}


def test_threads_that_compute_have_processor_time_in_this_process() -> None:
    times = ProcessorTimes()
    before = times.read()[OTHERS].running_seconds

    def compute() -> None:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass
        counted.append(times.read()[OTHERS].running_seconds)

    counted: list[float] = []
    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    assert counted[0] - before >= 0.2


def test_a_worker_is_idle_only_when_there_is_nothing_for_it(observed: Observed) -> None:
    lanes: list[Lane] = [observed.assign()]
    assert activity(lanes, 0) == "idle"
    assert activity(lanes, 3) == "starved"


def test_a_worker_works_unless_all_that_it_has_is_held(observed: Observed) -> None:
    first, second = (observed.assign(TopicPartition("requests", number)) for number in (0, 1))
    for lane in (first, second):
        lane.receive([SourceRecord(*lane.partition, 0, 0, None, b"{}", ())], 1, 0.0)
    assert activity([first, second], 5) == "working"
    first.holds[Hold.REDIS] = Held("away")
    assert activity([first, second], 5) == "working"
    second.holds[Hold.REDIS] = Held("away")
    assert activity([first, second], 5) == "held"
