"""What is committed, and what the next owners are told with it."""

import asyncio
from collections.abc import Mapping

from structlog.testing import capture_logs

from consumer.clock import SystemClock
from consumer.committer import Committer
from consumer.errors import DependencyUnavailable
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
    assert source.notes == ["", "scorestream-suspect 5:1 5@1"]


class RefusingSource:
    """Refuses each commit for the next of these reasons; None: it takes it."""

    def __init__(self, *reasons: str | None) -> None:
        self._reasons = iter(reasons)

    async def commit(self, _offsets: Mapping[TopicPartition, int], _notes: Mapping[TopicPartition, str]) -> None:
        if reason := next(self._reasons):
            raise DependencyUnavailable("kafka", reason)


async def test_a_refused_commit_is_logged_once_and_again_when_the_reason_or_the_time_is_another():
    reasons = ["no answer", "no answer", "not authorised", "not authorised", None, "not authorised"]
    ledger, suspects = Ledger(SETTINGS.limits, SETTINGS.breaker), Suspects()
    fence = StallFence(1.0, 0.0)
    committer = Committer(RefusingSource(*reasons), ledger, fence, suspects, Telemetry(SystemClock()).commit)
    ledger.assigned([PARTITION])
    [item] = ledger.receive(PARTITION, [SourceRecord(*PARTITION, 5, 0, None, b"{}", ())], 6, 0.0)
    with capture_logs() as log:
        for reason in reasons:
            suspects.accuse([item])  # so that there is something to tell
            await committer.commit()
            assert fence.refusal == (f"kafka: {reason}" if reason else None)
    refused = [line["reason"] for line in log if line["event"] == "commit refused"]
    assert refused == ["kafka: no answer", "kafka: not authorised", "kafka: not authorised"]
