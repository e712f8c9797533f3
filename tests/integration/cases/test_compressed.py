"""What producers compress: much may stand in little, and costs no more than it may."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.integration.cases.case import Case, MakeCase, id_of, request, requests, source_offset
from tests.integration.cases.test_bad_records import header
from tests.services.batches import packed_batch, publish_batch, record
from tests.services.probe import Probe

pytestmark = pytest.mark.kafka

MEBIBYTE = 1 << 20
CODECS = ["gzip", "lz4", "zstd"]
BLOCKED_SECONDS = 1.5
"""What the event loop may be late on a busy machine."""


def most_resident_bytes(pid: int) -> int:
    """Since the process began."""
    [line] = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


async def publish(case: Case, codec: str, values: list[bytes], partition: int = 0) -> None:
    """All in one batch."""
    data = packed_batch(codec, [record(n, value, b"k%d" % n) for n, value in enumerate(values)])
    await publish_batch(case.kafka.bootstrap_servers, case.place.topics.requests, partition, data)


async def slowest_answer(probe: Probe, until: asyncio.Event) -> float:
    """Of /readyz, which is answered on the event loop; asserts that it is ready all the time."""
    slowest_seconds = 0.0
    while not until.is_set():
        began = time.monotonic()
        answer = await probe.ask("/readyz")
        slowest_seconds = max(slowest_seconds, time.monotonic() - began)
        assert answer.status == 200, answer.text
        await asyncio.sleep(0.02)
    return slowest_seconds


@pytest.mark.parametrize("codec", CODECS)
async def test_a_record_of_150_megabytes_in_a_small_batch_costs_its_place_alone(
    make_case: MakeCase, free_port: int, codec: str
):
    """Its neighbours in the batch are answered, in order; the worker stays ready, small and awake."""
    case = await make_case(1, settings={"health.port": free_port})
    worker, probe = await case.started(), Probe(free_port)
    await case.publish(requests(1))
    await case.until_all_committed()
    at_rest_bytes = most_resident_bytes(worker.pid)
    done = asyncio.Event()
    asking = asyncio.create_task(slowest_answer(probe, done))
    await publish(case, codec, [request("before"), b"\0" * 150_000_000, request("behind")])
    await case.publish(requests(5, first=1))
    await case.until_all_committed()
    done.set()
    assert await asking < BLOCKED_SECONDS
    assert most_resident_bytes(worker.pid) - at_rest_bytes < 60 * MEBIBYTE
    results = await case.results(8)
    assert [source_offset(result) for result in results] == [0, 1, 3, 4, 5, 6, 7, 8]
    assert [id_of(result) for result in results[1:3]] == ["before", "behind"]
    [letter] = await case.dead_letters(1)
    assert (letter.key, letter.value) == (b"k1", b"")
    assert header(letter, "scorestream-source-offset") == "2"
    assert header(letter, "scorestream-value-unread") == "1"
    assert "limits.max_unpacked_bytes" in (header(letter, "scorestream-error-message") or "")
    assert header(letter, "scorestream-null-value") is None
    assert await worker.stop() == 0
    await case.verified()


@pytest.mark.parametrize("codec", CODECS)
async def test_a_small_batch_of_many_good_requests_is_answered_in_bounded_memory(make_case: MakeCase, codec: str):
    """200 MB of them, where a partition may hold 11 MB at eleven times their bytes."""
    case = await make_case(1, settings={"limits.memory_bytes": 256 * MEBIBYTE})
    worker = await case.started()
    await case.publish(requests(1))
    await case.until_all_committed()
    at_rest_bytes = most_resident_bytes(worker.pid)
    await publish(case, codec, [request(f"many-{number}", "words " * 35_000) for number in range(1000)])
    await case.until_all_committed()
    assert most_resident_bytes(worker.pid) - at_rest_bytes < 256 * MEBIBYTE
    results = await case.results(1001)
    assert [id_of(result) for result in results[1:]] == [f"many-{number}" for number in range(1000)]
    assert {header(result, "scorestream-status") for result in results} == {"ok"}
    assert await worker.stop() == 0
    await case.verified()
