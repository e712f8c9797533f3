"""Requests so large that a partition's part of the memory holds none, or few, of them."""

import json

import pytest

from consumer.sections import LimitSettings
from tests.integration.cases.case import MakeCase, request, source_offset

pytestmark = pytest.mark.kafka

PARTITIONS = 64
LARGE, LARGE_BYTES = 60, 904_000
LIMITS = LimitSettings()
DEFAULTS: dict[str, object] = {
    "limits.max_uncommitted_records": LIMITS.max_uncommitted_records,
    "limits.chunk_records": LIMITS.chunk_records,
}


async def test_large_requests_of_one_of_many_partitions_are_all_answered_and_so_is_what_follows(
    make_case: MakeCase,
) -> None:
    """With the default memory each of them weighs more than the 64th part of it."""
    case = await make_case(PARTITIONS, settings=DEFAULTS)
    document = "w" * (LARGE_BYTES // 1000 - 13)
    for number in range(LARGE):
        fields = {"id": f"large-{number}", "task": "rerank", "query": "q", "documents": [{"text": document}] * 1000}
        value = json.dumps(fields).encode()
        assert abs(len(value) - LARGE_BYTES) < 5000
        await case.publish([value], partition=7)
    await case.publish([request("small")], partition=7)
    worker = await case.started()
    results = await case.results(LARGE + 1)
    await case.until_all_committed()
    assert [source_offset(result) for result in results] == list(range(LARGE + 1))
    assert {dict(result.headers)["scorestream-status"] for result in results} == {b"ok"}
    assert await worker.stop() == 0
