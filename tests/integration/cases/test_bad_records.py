"""Records that are bad in themselves: each costs a dead letter, and its neighbours nothing."""

import json

import pytest
from aiokafka import ConsumerRecord

from producer_tools.connections.kafka import Brokers
from producer_tools.replay import Filter, replay
from tests.integration.cases.case import MakeCase, id_of, request, requests, source_offset
from tests.services.batches import batch, publish_batch, record

pytestmark = pytest.mark.kafka

TOPIC_BYTES = 20_000
"""max.message.bytes of the results and of the dead letters."""
UNDECODABLE = [b"{", b"\xff\xfe", b"[]", b"", None]
QUICKLY_MS = 2000


def header(record: ConsumerRecord, name: str) -> str | None:
    """The last of this name."""
    value = dict(record.headers).get(name)
    return None if value is None else value.decode()


def rerank(name: str, documents: list[str]) -> bytes:
    """A request whose result repeats the documents."""
    fields = {"id": name, "task": "rerank", "query": "q", "documents": documents, "return_documents": True}
    return json.dumps(fields).encode()


async def test_one_batch_of_good_and_bad_is_answered_once_each_in_order(make_case: MakeCase):
    """Undecodable, too long for the model, too large for the results topic, too large for both: neighbours go out."""
    small = {"max.message.bytes": str(TOPIC_BYTES)}
    limits = {"limits.chunk_bytes": TOPIC_BYTES - 5000}
    case = await make_case(1, configs={"results": small, "dead": small}, settings=limits)
    too_long = request("too long", "word " * 600, truncate=False)
    too_large = rerank("too large", ["word " * 10] * 200)
    larger_still = rerank("larger still", ["word " * 1000] * 40)
    bad = [*UNDECODABLE, too_long, too_large, larger_still]
    values: list[bytes | None] = [*requests(5)]
    for number, value in enumerate(bad):
        values += [value, *requests(2, first=5 + 2 * number)]
    await case.publish(values)
    worker = await case.started()
    await case.until_all_committed()
    answered = len(values) - len(UNDECODABLE)
    results = await case.results(answered)
    letters = await case.dead_letters(len(bad))
    assert await worker.stop() == 0
    assert (await case.verified()).tally.duplicates == 0
    assert len(results) == answered
    assert [source_offset(one) for one in results] == [n for n, value in enumerate(values) if value not in UNDECODABLE]
    errors = {
        id_of(one): json.loads(one.value)["error"]["code"]
        for one in results
        if header(one, "scorestream-status") == "error"
    }
    assert errors == {"too long": "too_long", "too large": "result_too_large", "larger still": "result_too_large"}
    places = [int(header(letter, "scorestream-source-offset") or "") for letter in letters]
    assert places == [number for number, value in enumerate(values) if value in bad]
    assert [letter.value for letter in letters[:-1]] == bad[:-1]
    stub = letters[-1]
    assert stub.value == b""
    assert header(stub, "scorestream-value-bytes") == str(len(larger_still))


async def test_undecodable_records_do_not_delay_the_good_one_behind_them(make_case: MakeCase):
    case = await make_case(1)
    worker = await case.started()
    await case.publish(requests(1))
    await case.results(1)
    await case.publish([*UNDECODABLE * 4, *requests(1, first=1)])
    [_, result] = await case.results(2)
    assert result.timestamp - json.loads(result.value)["source"]["timestamp_ms"] < QUICKLY_MS
    assert len(await case.dead_letters(4 * len(UNDECODABLE))) == 4 * len(UNDECODABLE)
    assert await worker.stop() == 0


async def test_an_engine_that_dies_of_the_first_request_moves_no_offset_and_the_next_worker_knows_the_culprit(
    make_case: MakeCase,
):
    """The process ends, for its engine died again at once; what it learnt spares its successor."""
    case = await make_case(1)
    await case.publish([request("deadly", "!die"), *requests(20)])
    first = await case.started("first")
    assert await first.wait() == 1
    await case.offsets.look()
    assert case.offsets.latest.get(0, 0) == 0
    topics = case.place.topics
    assert await case.place.ends(topics.results) == await case.place.ends(topics.dead_letters) == {0: 0}
    second = await case.started("second")
    await case.until_all_committed()
    assert await second.stop() == 0
    assert (await case.verified()).tally.duplicates == 0
    [letter] = await case.dead_letters(1)
    assert header(letter, "scorestream-error-code") == "engine_rejected"
    assert header(letter, "scorestream-source-offset") == "0"
    assert int(header(letter, "scorestream-attempts") or "") >= 2, "of the first worker"


async def test_a_header_name_that_is_not_utf_8_costs_an_error_result_and_a_replay_mends_it(make_case: MakeCase):
    """Nothing of the request is lost: the dead letter holds its key and its value, and the name with escaped bytes."""
    case = await make_case(1)
    worker = await case.started()
    await case.publish(requests(1))
    bad = record(0, request("misnamed"), b"k", [(b"\xff", b"1"), (b"app", b"shop"), (b"none", None)])
    await publish_batch(case.kafka.bootstrap_servers, case.place.topics.requests, 0, batch([bad]))
    await case.publish(requests(1, first=1))
    await case.until_all_committed()
    results = await case.results(3)
    assert [id_of(result) for result in results] == ["id-0", "misnamed", "id-1"]
    error = json.loads(results[1].value)["error"]
    assert (error["code"], results[1].key) == ("schema", b"k")
    assert "not UTF-8" in error["message"]
    assert results[1].headers[:3] == (("\\xff", b"1"), ("app", b"shop"), ("none", None))
    [letter] = await case.dead_letters(1)
    assert (letter.key, letter.value) == (b"k", request("misnamed"))
    assert letter.headers[:3] == results[1].headers[:3]
    assert header(letter, "scorestream-null-value") is None
    await case.verified()
    brokers, topics = Brokers(case.kafka.bootstrap_servers), case.place.topics
    await replay(
        brokers=brokers,
        dead_letter_topic=topics.dead_letters,
        request_topic=topics.requests,
        selected=Filter(frozenset(), frozenset({"misnamed"})),
        force=False,
        show=lambda _one: None,
    )
    again = (await case.results(4))[-1]
    assert (id_of(again), header(again, "scorestream-status")) == ("misnamed", "ok")
    assert await worker.stop() == 0
