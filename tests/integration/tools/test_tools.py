"""The tools as a user meets them: commands, streams and exit codes, on a real broker and a real Redis."""

import asyncio
import json
import os
import signal

import pytest

from schemas.errors import ErrorCode
from schemas.headers import REPLAY_FORCE, REPLAY_OF
from tests.fakes.echo_worker import answer, failure
from tests.integration.tools.place import Place
from tests.services.redis import RedisNode

GOOD = [json.dumps({"id": f"r{n}", "task": "score", "query": "q", "document": "d" * (n + 1)}) for n in range(40)]
MALFORMED = "not json"
BAD_FIELD = '{"id": "bad-field", "task": "score", "query": "q", "document": "d", "surprise": 1}'


async def test_publish_prints_the_ids_and_keys_by_them(place: Place) -> None:
    ended = await place.run("publish", "-H", "team=search", stdin=GOOD)
    assert ended.code == 0, ended.stderr
    assert sorted(ended.lines) == sorted(json.loads(line)["id"] for line in GOOD)
    records = await place.records(place.echo.requests)
    assert sorted(record.value.decode() for record in records) == sorted(GOOD)
    assert all(record.key.decode() == json.loads(record.value)["id"] for record in records)
    assert all(record.headers == (("team", b"search"),) for record in records)


async def test_publish_refuses_a_bad_line_by_its_number_after_publishing_those_before(place: Place) -> None:
    ended = await place.run("publish", stdin=[GOOD[0], "", BAD_FIELD, GOOD[1]])
    assert ended.code == 1
    assert "line 3: schema" in ended.stderr
    assert ended.lines == ["r0"]


async def test_publish_sends_anything_when_told_not_to_validate(place: Place) -> None:
    ended = await place.run("publish", "--no-validate", "--partition", "2", stdin=[MALFORMED])
    assert ended.code == 0, ended.stderr
    (record,) = await place.records(place.echo.requests)
    assert (record.value, record.key, record.partition) == (b"not json", None, 2)


async def test_publish_takes_the_key_from_the_field_that_is_named(place: Place) -> None:
    line = '{"id":"a","task":"embed","input":"x","metadata":{"user":"u7"}}'
    assert (await place.run("publish", "--key-field", "metadata.user", stdin=[line])).code == 0
    assert [record.key for record in await place.records(place.echo.requests)] == [b"u7"]


@pytest.mark.parametrize("task", ["rerank", "score", "classify", "embed"])
async def test_generated_requests_are_valid(place: Place, task: str) -> None:
    ended = await place.run("publish", "--generate", "7", "--task", task)
    assert ended.code == 0, ended.stderr
    assert len(set(ended.lines)) == 7
    assert all(answer(record).dead_letter is None for record in await place.records(place.echo.requests))


async def test_publish_prints_an_id_before_the_next_line_comes(place: Place) -> None:
    process = await place.start("publish")
    process.stdin.write(GOOD[0].encode() + b"\n")
    await process.stdin.drain()
    async with asyncio.timeout(30):
        assert await process.stdout.readline() == b"r0\n"
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130


async def test_a_missing_topic_is_named_and_not_created(place: Place) -> None:
    ended = await place.run("publish", "--request-topic", "never.made", stdin=GOOD)
    assert ended.code == 1
    assert "never.made" in ended.stderr
    again = await place.run("watch", "--result-topic", "never.made", "--count", "1")
    assert again.code == 1


async def test_an_unreachable_broker_ends_in_one_line(place: Place) -> None:
    ended = await place.run("publish", "--bootstrap-servers", "127.0.0.1:1", stdin=GOOD)
    assert ended.code == 1
    assert "127.0.0.1:1: Connection refused: start the broker" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("source", ["redis", "topic"])
async def test_get_waits_for_a_result_and_prints_its_bytes(place: Place, source: str) -> None:
    waiting = asyncio.create_task(place.run("get", "r3", "--wait", "--timeout", "60", "--source", source))
    async with place.echo.running():
        assert (await place.run("publish", stdin=GOOD)).code == 0
        ended = await waiting
    assert ended.code == 0, ended.stderr
    on_topic = {json.loads(r.value)["id"]: r.value for r in await place.records(place.echo.results)}
    assert ended.stdout.encode() == on_topic["r3"] + b"\n"


@pytest.mark.parametrize("source", ["redis", "topic"])
async def test_get_finds_what_is_there_without_waiting(place: Place, source: str) -> None:
    async with place.echo.running():
        await place.run("publish", stdin=GOOD[:1])
        await place.run("get", "r0", "--wait", "--source", source)
        ended = await place.run("get", "r0", "--source", source)
    assert (ended.code, json.loads(ended.stdout)["id"]) == (0, "r0")


async def test_a_result_s_words_are_shown_on_a_terminal_and_never_obeyed(place: Place) -> None:
    hostile = "a\u202eb\u2066\u200f"
    async with place.echo.running():
        published = await place.run("publish", stdin=[GOOD[0].replace("r0", hostile)])
        assert published.lines == [hostile]
        as_data = await place.run("get", hostile, "--wait")
        page = await place.run_on_terminal("get", hostile)
        followed = await place.run_on_terminal("watch", "--from-beginning", "--count", "1")
        raw = await place.run_on_terminal("watch", "--from-beginning", "--count", "1", "--json")
    assert json.loads(as_data.stdout)["id"] == hostile
    assert hostile in as_data.stdout
    for shown in (page, followed, raw):
        assert "a\\u202eb\\u2066\\u200f" in shown
        assert not {*hostile} - {"a", "b"} & {*shown}
    assert json.loads(raw) == json.loads(as_data.stdout)


async def test_publish_refuses_an_array_with_what_makes_lines_of_it(place: Place) -> None:
    ended = await place.run("publish", stdin=[json.dumps([json.loads(line) for line in GOOD], indent=2)])
    assert (ended.code, ended.stdout) == (1, "")
    assert "write one request a line, as `jq -c '.[]' FILE` does" in ended.stderr


@pytest.mark.parametrize("waiting", [[], ["--wait", "--timeout", "0.5"]])
@pytest.mark.parametrize("source", ["redis", "topic"])
async def test_get_fails_when_nothing_came(place: Place, source: str, waiting: list[str]) -> None:
    ended = await place.run("get", "nobody", "--source", source, *waiting)
    assert (ended.code, ended.stdout) == (1, "")
    assert "no result of nobody" in ended.stderr


async def test_watch_shows_the_selected_results_and_stops_after_count(place: Place) -> None:
    async with place.echo.running():
        await place.run("publish", "--no-validate", stdin=[*GOOD[:5], BAD_FIELD])
        every = await place.run("watch", "--from-beginning", "--count", "6", "--json")
        failed = await place.run("watch", "--from-beginning", "--failed", "--count", "1")
    assert {json.loads(line)["id"] for line in every.lines} == {"r0", "r1", "r2", "r3", "r4", "bad-field"}
    assert failed.code == 0
    assert "bad-field" in failed.stdout
    assert "schema" in failed.stdout


async def test_watch_ends_well_on_ctrl_c(place: Place) -> None:
    process = await place.start("watch", "--from-beginning", "--json")
    async with place.echo.running():
        await place.run("publish", stdin=GOOD[:1])
        async with asyncio.timeout(30):
            await process.stdout.readline()
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(30):
        _, stderr = await process.communicate()
    assert (process.returncode, stderr) == (0, b"")


async def test_verify_finds_nothing_wrong_with_a_worker_that_keeps_its_promises(place: Place) -> None:
    await place.run("publish", "--no-validate", stdin=[*GOOD, MALFORMED, BAD_FIELD])
    waiting = asyncio.create_task(place.run("verify", "--wait", "--redis", "--json", "--max-duplicates", "0"))
    async with place.echo.running():
        ended = await waiting
    report = json.loads(ended.stdout)
    assert (ended.code, report["ok"], report["findings"]) == (0, True, {})
    assert (report["requests"], report["results"], report["dead_letters"]) == (42, 41, 2)
    assert report["codes"] == {"ok": 40, "schema": 1}
    assert report["redis_checked"] == 41


async def test_verify_names_what_is_wrong_and_where(place: Place) -> None:
    await place.run("publish", "--no-validate", "--partition", "1", stdin=[*GOOD[:8], MALFORMED])
    records = await place.records(place.echo.requests)
    lost, late, stray, twice, unburied, buried, swapped, fine, _malformed = records
    dead_but_answered = failure(buried, ErrorCode.INTERNAL)._replace(result=answer(buried).result)
    foreign = answer(swapped).result
    foreign = answer(swapped)._replace(
        result=type(foreign)(foreign.key, foreign.value, (*foreign.headers, ("scorestream-id", b"other")))
    )
    await place.put(
        [
            (1, answer(twice)),
            (1, answer(late)),
            (1, answer(twice)),
            (0, answer(stray)),
            (1, failure(unburied, ErrorCode.INTERNAL)._replace(dead_letter=None)),
            (1, dead_but_answered),
            (1, foreign),
            (1, answer(fine)),
        ]
    )
    ended = await place.run("verify", "--json")
    assert ended.code == 3
    report = json.loads(ended.stdout)
    assert report["duplicates"] == 1
    at = {name: [int(where.rpartition("/")[2]) for where in one["first"]] for name, one in report["findings"].items()}
    assert at == {
        "unanswered": [lost.offset, records[8].offset],
        "out_of_order": [late.offset],
        "wrong_partition": [stray.offset],
        "dead_letter_missing": [unburied.offset],
        "dead_letter_unexpected": [buried.offset],
        "wrong_id": [swapped.offset],
    }
    table = await place.run("verify")
    assert table.code == 3
    assert f"{place.echo.requests}/1/{lost.offset}" in table.stdout.replace("\n", "").replace(" ", "")


async def test_verify_counts_duplicates_as_a_mismatch_only_above_the_limit(place: Place) -> None:
    await place.run("publish", stdin=GOOD[:1])
    (record,) = await place.records(place.echo.requests)
    await place.put([(record.partition, answer(record))] * 3)
    assert (await place.run("verify", "--max-duplicates", "2")).code == 0
    assert (await place.run("verify", "--max-duplicates", "1")).code == 3


async def test_verify_notices_what_redis_lost_or_never_got(place: Place, redis: RedisNode) -> None:
    import redis.asyncio as client  # noqa: PLC0415 - the fixture has the module's name

    async with place.echo.running():
        await place.run("publish", stdin=GOOD[:3])
        await place.run("verify", "--wait")
    async with client.from_url(redis.url) as cache:
        await cache.delete(f"{place.echo.prefix}r0")
        await cache.set(f"{place.echo.prefix}r1", b"something else")
    ended = await place.run("verify", "--redis", "--json")
    counts = {name: one["count"] for name, one in json.loads(ended.stdout)["findings"].items()}
    assert (ended.code, counts) == (3, {"redis_missing": 1, "redis_differs": 1})


async def test_replay_sends_the_selected_dead_letters_as_they_were(place: Place) -> None:
    await place.run("publish", "--no-validate", "--partition", "3", "-H", "k=v", stdin=[MALFORMED, BAD_FIELD])
    first, second = await place.records(place.echo.requests)
    await place.put([(3, answer(first)), (3, answer(second)), (3, answer(second))])
    dry = await place.run("replay", "--dry-run", "--json")
    assert [json.loads(line)["code"] for line in dry.lines] == ["malformed", "schema"]
    assert len(await place.records(place.echo.requests)) == 2
    ended = await place.run("replay", "--code", "schema", "--force")
    assert ended.code == 0, ended.stderr
    assert ended.stdout.split("\t")[1:] == ["schema", "bad-field\n"]
    replayed = (await place.records(place.echo.requests))[2:]
    assert [(one.value, one.partition) for one in replayed] == [(BAD_FIELD.encode(), 3)]
    origin = f"{place.echo.requests}/3/{second.offset}".encode()
    assert replayed[0].headers == (("k", b"v"), (REPLAY_OF, origin), (REPLAY_FORCE, b"1"))


async def test_bench_measures_workers_that_run_already(place: Place) -> None:
    common = ["--existing", "--task", "score", "--requests", "50", "--warmup", "5", "--pid", str(os.getpid()), "--json"]
    more = (["--concurrency", "8", "--one-at-a-time"], ["--rate", "100"])
    async with place.echo.running():
        ended = [await place.run("bench", *common, *one) for one in more]
    assert [one.code for one in ended] == [0, 0], [one.stderr for one in ended]
    closed, opened = (json.loads(one.stdout) for one in ended)
    lone = closed["measurements"].pop()
    assert (lone["kind"], lone["requests"]) == ("pipeline_one_at_a_time", 100)
    assert lone["stages_ms"]["total"]["p50"] <= lone["latency_ms"]["p50"] <= lone["latency_ms"]["max"]
    for report in (closed, opened):
        [measured] = report["measurements"]
        assert (measured["requests"], measured["statuses"]) == (50, {"ok": 50})
        latency = measured["latency_ms"]
        assert 0 < latency["p50"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]
        assert sum(count for _, count in measured["latency_histogram"]) == 50
        assert measured["cpu_us_per_request"]["worker"] > 0
        assert measured["lag_at_start"] >= 5  # the echo worker commits nothing
        assert set(measured["stages_ms"]) == {"queue", "prepare", "engine", "emit", "total"}
    assert opened["measurements"][0]["requests_per_second"] <= 110
