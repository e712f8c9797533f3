"""SIGTERM under load: what was begun is finished, nothing else is, and the next owner need not wait."""

import signal
import time

import pytest

from tests.integration.cases.case import DRAIN_SECONDS, PARTITIONS, MakeCase, requests

pytestmark = pytest.mark.kafka

STEP_SEQUENCES, STEPS_IN_FLIGHT = 4, 2
SLOW: dict[str, object] = {
    "engine.max_num_seqs": STEP_SEQUENCES,
    "engine.steps_in_flight": STEPS_IN_FLIGHT,
    "engine.scripted_seconds_per_step": 0.1,
    "micro_batch.max_records": STEP_SEQUENCES,
    "limits.lane_records": 512,
}
"""40 requests a second, and room for much that waits."""
LONG: dict[str, object] = {
    "kafka.session_timeout_seconds": 60,
    "kafka.rebalance_timeout_seconds": 60,
    "kafka.request_timeout_seconds": 65,
}
"""For so long the group would wait for a worker that goes without a word."""


async def test_after_sigterm_nothing_enters_the_engine_and_the_next_owner_goes_on_at_once(make_case: MakeCase):
    case = await make_case(settings=SLOW | LONG)
    for partition in range(PARTITIONS):
        await case.publish(requests(100, first=100 * partition), partition)
    leaving = await case.started("leaving")
    await case.results(20)
    leaving.send(signal.SIGTERM)
    began = time.monotonic()
    assert await leaving.wait() == 0
    assert time.monotonic() - began < DRAIN_SECONDS
    at_sigterm, at_end = await leaving.wait_for_event("draining"), await leaving.wait_for_event("totals")
    assert at_end["scored_sequences"] - at_sigterm["scored_sequences"] <= STEP_SEQUENCES * STEPS_IN_FLIGHT
    assert at_end["received"] > at_end["answered"] + 100, "much had been fetched, and is left to the next owner"
    await case.offsets.look()
    assert sum(case.offsets.latest.values()) == at_end["answered"], "every answer is committed, and nothing else"
    staying = await case.started("staying", {"engine.scripted_seconds_per_step": 0.001})
    await case.until_all_committed(timeout_seconds=30)
    assert await staying.stop() == 0
    assert (await case.verified()).tally.duplicates == 0
