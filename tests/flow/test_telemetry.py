"""The metrics of a worker, against what was done to it."""

import threading
from collections.abc import Callable, Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from consumer.errors import DependencyUnavailable
from consumer.health import Health
from consumer.loading import scripted_card
from consumer.metrics.exposition import Exposition
from consumer.metrics.readings import Observed
from consumer.metrics.sampler import GpuReading, Sampler
from consumer.records import Message, TopicPartition
from tests.flow.conftest import FlowWorker, World


class Scraped:
    """A worker with its metrics."""

    def __init__(self, world: World, worker: FlowWorker) -> None:
        self.broker_answers = True
        self.driver_answers = threading.Event()
        self.driver_answers.set()
        self.sampler = Sampler(worker.flow, self._ends, self._gpus, worker.clock)
        self._world = world
        settings = worker._settings
        health = Health(settings.health, 60.0, worker.clock.monotonic())
        self._exposition = Exposition(health, worker.clock, "")
        self._exposition.observed = Observed(
            worker.flow, worker.revivable, worker.source, self.sampler, scripted_card(settings.engine), settings.limits
        )

    async def _ends(self) -> Mapping[TopicPartition, int]:
        if not self.broker_answers:
            raise DependencyUnavailable("kafka", "away")
        topic = self._world.requests
        return {TopicPartition(topic.name, number): end for number, end in enumerate(topic.next_offsets)}

    def _gpus(self) -> list[GpuReading]:
        self.driver_answers.wait()
        return [GpuReading("3", 0.5, 1, 2)]

    def __call__(self, name: str, **labels: str) -> float:
        """The value of one series now."""
        [value] = (value for series, value in self._series(name) if labels.items() <= series.items())
        return value

    def has(self, name: str) -> bool:
        """Whether there is any series."""
        return bool(self._series(name))

    def _series(self, name: str) -> list[tuple[dict[str, str], float]]:
        text = self._exposition.expose("")[0].decode()
        samples = (one for family in text_string_to_metric_families(text) for one in family.samples)
        return [(one.labels, one.value) for one in samples if one.name == f"scorestream_{name}"]


async def test_every_request_is_counted_where_it_ended(make_world: Callable[..., World]):
    world = make_world(partitions=2)
    world.publish(30, partition=0)
    world.publish(10, partition=1, document="!reject")
    world.requests.append(1, Message(None, b"{", ()))
    worker = await world.start()
    scraped = Scraped(world, worker)
    await world.until_all_committed()
    assert scraped("received_records_total") == 41
    assert scraped("answered_records_total") == 30
    assert scraped("refused_records_total", code="engine_rejected") == 10
    assert scraped("dead_letters_total", code="engine_rejected") == 10
    assert scraped("dead_letters_total", code="malformed") == 1
    assert scraped("scored_sequences_total") == 40
    assert scraped("record_age_seconds_count", outcome="answered") == 30
    assert scraped("record_age_seconds_count", outcome="refused") == 11
    assert scraped("stage_duration_seconds_count", stage="total") == 41
    parts = ("prepare", "queue", "engine", "shape", "emit", "write")
    spent = sum(scraped("stage_duration_seconds_sum", stage=stage) for stage in parts)
    assert scraped("stage_duration_seconds_sum", stage="total") == pytest.approx(spent)
    assert scraped("engine_sequences") == scraped("engine_tokens") == scraped("inflight_bytes") == 0
    assert scraped("commits_total", outcome="ok") > 0
    assert scraped("rebalances_total", event="assigned") == 1
    assert scraped("sink_writes_total", sink="dead_letters", outcome="ok") > 0
    for part in ("prepare", "engine", "shape", "results", "redis", "commit"):
        assert scraped("busy_seconds_total", part=part) > 0
    assert scraped("model_info", kind="cross_encoder") == 1


async def test_what_waits_is_seen_by_partition_with_its_reason(make_world: Callable[..., World]):
    world = make_world()
    world.publish(20)
    worker = await world.start()
    worker.results.refuse_next = 10_000
    scraped = Scraped(world, worker)
    place = {"topic": "score.requests", "partition": "0"}
    await world.until(lambda: scraped("partitions_held", reason="results_topic") == 1, "the results topic holds it")
    await scraped.sampler.sample()
    assert scraped("partitions", state="open") == 1
    assert scraped("partition_lag_records", **place) == 20
    assert scraped("partition_inflight_records", **place) == 20
    assert scraped("partition_oldest_age_seconds", **place) > 0
    assert scraped("partition_head_wait_seconds", **place) > 0
    assert scraped("sink_writes_total", sink="results", outcome="failed") > 0
    assert scraped("inflight_bytes") > 0
    worker.results.refuse_next = 0
    await world.until_all_committed()
    world.publish(100, document="!hold")
    await world.until(lambda: scraped("engine_sequences") == scraped("engine_limit_sequences"), "the engine is full")
    await scraped.sampler.sample()
    assert scraped("partitions_held", reason="results_topic") == 0
    assert scraped("partition_lag_records", **place) == 100
    assert scraped("waiting_records") > 0
    assert scraped("work_waiting_seconds") == pytest.approx(100 * scraped.sampler.seconds_per_record)
    assert scraped("work_waiting_seconds") > 0
    worker.engine.release()


async def test_a_broker_that_does_not_answer_leaves_the_lag_known_before_and_its_age(make_world: Callable[..., World]):
    world = make_world()
    world.publish(5, document="!hold")
    worker = await world.start()
    scraped = Scraped(world, worker)
    await world.until(lambda: scraped("engine_sequences") == 5, "all are in the engine")
    await scraped.sampler.sample()
    scraped.broker_answers = False
    worker.clock.stall_seconds += 60
    await scraped.sampler.sample()
    assert scraped("partition_lag_records", partition="0") == 5
    assert scraped("lag_age_seconds") >= 60
    assert scraped("lag_reads_failed_total") == 1
    assert scraped("gpu_utilization_ratio", gpu="3") == 0.5


async def test_a_driver_that_hangs_costs_the_gpus_their_series_and_nothing_else(make_world: Callable[..., World]):
    world = make_world()
    world.publish(5, document="!hold")
    scraped = Scraped(world, await world.start())
    await world.until(lambda: scraped("engine_sequences") == 5, "all are in the engine")
    await scraped.sampler.sample()
    assert scraped.has("gpu_memory_used_bytes")
    scraped.driver_answers.clear()
    world.publish(1)
    await scraped.sampler.sample()
    assert not scraped.has("gpu_memory_used_bytes")
    assert scraped("partition_lag_records", partition="0") == 6
    scraped.driver_answers.set()
    await scraped.sampler.sample()
    assert scraped.has("gpu_memory_used_bytes")


async def test_a_record_on_which_the_engine_failed_has_spent_no_negative_time(make_world: Callable[..., World]):
    world = make_world()
    world.publish(1, document="!fail")
    worker = await world.start()
    scraped = Scraped(world, worker)
    await world.until_all_committed()
    [answer] = world.answers()
    assert answer["error"]["code"] == "internal"
    timings = answer["timings_ms"]
    assert min(timings.values()) >= 0
    assert max(timings.values()) <= timings["total"]
    assert scraped("stage_duration_seconds_sum", stage="engine") >= 0


async def test_a_partition_that_the_breaker_holds_is_counted_once_however_often_it_is_tried(
    make_world: Callable[..., World],
):
    world = make_world()
    worker = await world.start(breaker__window_records=5, breaker__probe_seconds=0.05)
    scraped = Scraped(world, worker)
    world.publish(6, document="!reject")
    await world.until(lambda: scraped("scored_sequences_total") >= 8, "two are tried again")
    assert scraped("partitions_held", reason="breaker") == 1
    assert scraped("breaker_open_partitions", code="engine_rejected") == 1
    assert scraped("breaker_opens_total", code="engine_rejected") == 1


async def test_a_partition_that_a_good_request_lets_go_and_bad_ones_hold_again_is_counted_once(
    make_world: Callable[..., World],
):
    world = make_world()
    worker = await world.start(breaker__window_records=5, breaker__probe_seconds=0.05)
    scraped = Scraped(world, worker)
    world.publish(1)
    world.publish(5, model="another")
    [lane] = worker.flow.ledger.lanes.values()
    await world.until(lambda: world.committed(0) == 1 and lane.breaker.open, "let go once, and held again")
    assert scraped("breaker_open_partitions", code="wrong_model") == 1
    assert scraped("breaker_opens_total", code="wrong_model") == 1


async def test_every_death_of_an_engine_is_counted(make_world: Callable[..., World]):
    world = make_world()
    scraped = Scraped(world, await world.start(engine__restart_period_seconds=1e-6))
    world.publish(1, document="!die")
    await world.until_all_committed()
    assert scraped("engine_deaths_total") == scraped("engine_restarts_total") == 2
    assert scraped("refused_records_total", code="engine_rejected") == 1
    assert scraped("suspect_records") == 0


async def test_a_rebalance_is_counted_and_timed(make_world: Callable[..., World]):
    world = make_world(partitions=2)
    scraped = Scraped(world, await world.start())
    assert scraped("rebalances_total", event="assigned") == 1
    assert scraped("rebalance_duration_seconds_count") == 0, "joining is none"
    await world.start()
    await world.until(lambda: scraped("rebalances_total", event="assigned") == 2, "the group has two members")
    assert scraped("rebalances_total", event="revoked") == 1
    assert scraped("rebalance_duration_seconds_count") == 1
    assert scraped("partitions", state="open") == 1
