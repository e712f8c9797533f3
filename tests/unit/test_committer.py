"""What is committed, and what the next owners are told with it."""

import asyncio
from collections.abc import Mapping

from consumer.clock import SystemClock
from consumer.committer import Committer
from consumer.fence import StallFence
from consumer.ledger import Ledger
from consumer.metrics.telemetry import Telemetry
from consumer.records import SourceRecord, TopicPartition
from consumer.settings import load_settings
from consumer.suspects import Suspects

SETTINGS = load_settings({"engine.kind": "scripted"})
PARTITION = TopicPartition("requests", 0)


class SlowSource:
    """Takes every commit when `answers` is set."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.asked = asyncio.Event()
        self.notes: list[str] = []

    async def commit(self, offsets: Mapping[TopicPartition, int], notes: Mapping[TopicPartition, str]) -> None:
        self.notes.append(notes[PARTITION])
        self.asked.set()
        await self.answers.wait()


async def test_an_accusation_that_comes_while_a_commit_is_under_way_is_told_by_the_next():
    ledger, suspects, source = Ledger(SETTINGS.limits, SETTINGS.breaker), Suspects(), SlowSource()
    committer = Committer(source, ledger, StallFence(1.0, 0.0), suspects, Telemetry(SystemClock()).commit)
    ledger.assigned([PARTITION])
    [item] = ledger.receive(PARTITION, [SourceRecord(*PARTITION, 5, 0, None, b"{}", ())], 6, 0.0)
    under_way = asyncio.create_task(committer.commit())
    await source.asked.wait()
    suspects.accuse([item])
    source.answers.set()
    await under_way
    await committer.commit()
    await committer.commit()
    assert source.notes == ["", "scorestream-suspect 5:1"]
