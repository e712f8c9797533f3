"""/metrics of a worker process on Apache Kafka and Redis, scraped under load, against what was published."""

import asyncio
import json
import time
from itertools import pairwise
from pathlib import Path

from tests.conftest import CreateTopics
from tests.integration.test_health import probed
from tests.integration.test_worker_scripted import publish, worker_settings
from tests.services.kafka import KafkaNode
from tests.services.probe import Probe, Scrape
from tests.services.redis import RedisNode

COUNT, PARTITIONS = 6_000, 4
SECRET = "hush-hush"
LOAD_SECONDS_LIMIT = 90.0


async def test_what_is_scraped_under_load_agrees_with_what_was_published(
    kafka: KafkaNode, redis: RedisNode, topics: CreateTopics, tmp_path: Path
):
    """And the log, which tells of all of it, has no text of a request and no password."""
    names = await topics(kafka, requests=PARTITIONS, results=PARTITIONS, dead=PARTITIONS)
    good, bad = await publish(kafka, names["requests"], COUNT, PARTITIONS)
    settings = worker_settings(kafka, redis, names) | {
        "engine.max_num_seqs": 32,
        "engine.scripted_seconds_per_step": 0.05,
        "engine.args": json.dumps({"hf_token": SECRET}),
        "redis.url": f"redis://default:{SECRET}@127.0.0.1:{redis.port}/0",
    }
    async with probed(tmp_path, settings) as (worker, probe):
        scrapes = await scrape_until_lag_is_gone(probe)
        first, last = scrapes[0], scrapes[-1]
        assert first("partition_lag_records") > 0
        assert max(scrape("engine_sequences") for scrape in scrapes) > 0
        assert all(scrape("engine_sequences") <= scrape("engine_limit_sequences") for scrape in scrapes)
        assert all(
            before("answered_records_total") <= after("answered_records_total") for before, after in pairwise(scrapes)
        )
        assert last("received_records_total") == COUNT
        assert last("answered_records_total") == last("record_age_seconds_count", outcome="answered") == len(good)
        assert last("refused_records_total") == last("dead_letters_total") == len(bad)
        assert last("dead_letters_total", code="engine_rejected") == len(bad) // 10
        assert last("partition_uncommitted_records") == last("inflight_bytes") == 0
        assert last("partitions", state="open") == PARTITIONS
        assert last("rebalances_total", event="assigned") == 1
        assert last("sink_writes_total", sink="results", outcome="ok") > 0
        assert last("commits_total", outcome="ok") > 0
        assert last("ready") == last("live") == 1
        assert await worker.stop() == 0
        log = worker.log.read_text()
    assert '"event": "totals"' in log
    for unwanted in ("some words", "query 1", SECRET):
        assert unwanted not in log


async def scrape_until_lag_is_gone(probe: Probe) -> list[Scrape]:
    """From the first one that knows the lag."""
    deadline = time.monotonic() + LOAD_SECONDS_LIMIT
    scrapes: list[Scrape] = []
    await probe.until_ready()
    while time.monotonic() < deadline:
        scrape = Scrape((await probe.ask("/metrics")).text)
        if scrapes or scrape("partition_lag_records"):
            scrapes.append(scrape)
            if not scrape("partition_lag_records"):
                return scrapes
        await asyncio.sleep(0.1)
    raise TimeoutError(f"lag is {scrapes[-1]('partition_lag_records') if scrapes else 'not known'}")
