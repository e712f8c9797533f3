"""One partition's results are in request order, and one request's fault is its own."""

import json
from collections.abc import Callable

from consumer.records import Message
from schemas.errors import ErrorCode
from tests.flow.conftest import World

MakeWorld = Callable[..., World]


async def test_results_wait_for_the_request_before_them(make_world: MakeWorld):
    world = make_world()
    world.publish(3)
    world.publish(1, document="!hold")
    world.publish(40)
    worker = await world.start(micro_batch__max_records=1)
    await world.until(lambda: worker.flow.tally.scored_sequences == 43, "all but the held one are scored")
    await world.until(lambda: world.committed() == 3, "the committed offset stands at the held one")
    assert world.first_offsets(0) == [0, 1, 2]
    worker.engine.release()
    await world.until_all_committed()
    world.assert_complete_and_ordered()


async def test_a_stuck_partition_does_not_hold_another(make_world: MakeWorld):
    world = make_world(2)
    world.publish(1, 0, document="!hold")
    world.publish(200, 1)
    await world.start(micro_batch__max_records=1)
    await world.until(lambda: world.committed(1) == 200, "the other partition is done")
    assert world.first_offsets(0) == []


async def test_each_bad_request_keeps_its_place_and_its_neighbours_are_answered(make_world: MakeWorld):
    world = make_world()
    bad = {
        "schema": {"topn": 1},
        "engine_rejected": {"document": "!reject"},
        "non_finite": {"document": "!nan"},
        "wrong_model": {"model": "another"},
        "unsupported_task": {"task": "embed", "input": "d", "query": None, "document": None},
        "empty_input": {"document": " "},
        "expired": {"deadline_unix_ms": 10**12},
        "too_long": {"document": "w " * 600, "truncate": False},
    }
    for fields in bad.values():
        world.publish(2)
        world.publish(1, **fields)
    await world.start()
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    codes = [answer.get("error", {}).get("code") for answer in world.answers()]
    assert codes == [code for one in bad for code in (None, None, one)]
    dead = [dict(record.headers)["scorestream-error-code"].decode() for record in world.dead.records[0]]
    assert dead == [code for code in bad if ErrorCode(code).dead_letter]


async def test_what_cannot_be_named_becomes_a_dead_letter_alone(make_world: MakeWorld):
    world = make_world()
    world.publish(1)
    for value in (b"{", b"[]", None, b"\xff", b'{"task":"score"}'):
        world.requests.append(0, Message(b"key", value, (("h", b"1"),)))
    world.publish(1)
    await world.start()
    await world.until_all_committed()
    assert world.first_offsets(0) == [0, 6]
    assert [record.value for record in world.dead.records[0]] == [b"{", b"[]", None, b"\xff", b'{"task":"score"}']
    assert all(record.key == b"key" for record in world.dead.records[0])


async def test_our_own_fault_in_a_stage_is_one_records_internal_error(make_world: MakeWorld, monkeypatch):
    world = make_world()
    world.publish(1)
    world.publish(1, document="cursed")
    world.publish(1)
    worker = await world.start()
    task = worker.flow._preparer._tasks["score"]
    shape = task.shape

    def failing(prepared, outputs):
        if prepared.request.document.text == "cursed":
            raise KeyError("the text must not appear: cursed")
        return shape(prepared, outputs)

    monkeypatch.setattr(task, "shape", failing)
    await world.until_all_committed()
    codes = [answer.get("error", {}).get("code") for answer in world.answers()]
    assert codes == [None, "internal", None]
    assert "cursed" not in json.dumps(world.answers())


async def test_a_result_too_large_for_the_topic_is_an_error_and_its_neighbours_go_out(make_world: MakeWorld):
    world = make_world(max_message_bytes=3000)
    fields = {"task": "rerank", "query": "q", "document": None, "return_documents": True}
    world.publish(1)
    world.publish(1, **fields, documents=["d" * 4000], metadata={"m": "x" * 3500})
    world.publish(1)
    await world.start()
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    codes = [answer.get("error", {}).get("code") for answer in world.answers()]
    assert codes == [None, "result_too_large", None]
    assert world.answers()[1]["dropped"] == ["metadata"]


async def test_a_request_larger_than_the_engine_window_is_answered_whole(make_world: MakeWorld):
    world = make_world()
    documents = [f"document {number}" for number in range(100)]
    world.publish(1, task="rerank", document=None, documents=documents)
    worker = await world.start(micro_batch__max_tokens=40)
    await world.until_all_committed()
    [answer] = world.answers()
    assert sorted(one["index"] for one in answer["results"]) == list(range(100))
    scores = [one["score"] for one in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert worker.engine.largest_queue_sequences <= 16


async def test_the_same_id_twice_is_answered_twice(make_world: MakeWorld):
    world = make_world()
    world.publish(3, id="same")
    await world.start()
    await world.until_all_committed()
    assert [answer["id"] for answer in world.answers()] == ["same"] * 3


async def test_what_is_late_already_costs_neither_tokens_nor_the_engine(make_world: MakeWorld):
    """Under overload with deadlines most of it is: the tokenizer's time is for what can still be in time."""
    world = make_world()
    world.publish(20, deadline_unix_ms=10**12)
    world.publish(1)
    worker = await world.start()
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    codes = [answer.get("error", {}).get("code") for answer in world.answers()]
    assert codes == ["expired"] * 20 + [None]
    assert worker.encoder.encoded_texts == 2
    assert worker.flow.tally.scored_sequences == 1


async def test_a_timeout_from_a_timestamp_in_seconds_is_refused_for_good_and_its_neighbours_are_answered(
    make_world: MakeWorld,
):
    world = make_world()
    good = {"task": "score", "query": "q", "document": "d", "timeout_ms": 60_000}
    for number, timestamp_ms in enumerate((None, 1_764_435_600, 0, -1, None)):
        value = json.dumps(good | {"id": f"r{number}"}).encode()
        world.requests.append(0, Message(None, value, ()), timestamp_ms)
    await world.start()
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    errors = [answer.get("error", {}) for answer in world.answers()]
    assert [error.get("code") for error in errors] == [None, "schema", "schema", "schema", None]
    assert not any(error["retryable"] for error in errors[1:4])
    assert [answer["source"]["timestamp_ms"] for answer in world.answers()][1:4] == [1_764_435_600, 0, -1]
    assert len(world.dead.records[0]) == 3


async def test_an_error_result_names_only_what_it_left_out(make_world: MakeWorld):
    world = make_world(max_message_bytes=2_000)
    bad = {"id": "r", "task": "score", "query": "q", "document": "d", "topn": 1}
    headers = (("h", b"h" * 3_000),)
    world.requests.append(0, Message(None, json.dumps(bad).encode(), headers))
    world.requests.append(0, Message(b"k" * 3_000, json.dumps(bad).encode(), ()))
    world.requests.append(0, Message(b"k" * 3_000, json.dumps(bad | {"metadata": {"m": 1}}).encode(), headers))
    world.requests.append(0, Message(b"k", json.dumps(bad).encode(), ()))
    await world.start()
    await world.until_all_committed()
    dropped = [answer.get("dropped") for answer in world.answers()]
    assert dropped == [["headers"], ["key"], ["metadata", "headers", "key"], None]
    assert [record.key for record in world.results.records[0]] == [None, None, None, b"k"]
