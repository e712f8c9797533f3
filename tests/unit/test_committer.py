"""What is committed, and what the next owners are told with it."""

import asyncio
from collections.abc import Iterable, Mapping

from structlog.testing import capture_logs

from consumer.clock import SystemClock
from consumer.committer import Committer
from consumer.errors import DependencyUnavailable, PartitionLost, Unanswered
from consumer.fence import StallFence, Uncommitted
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
    """Fails each commit with the next of these; None: it takes it."""

    def __init__(self, failures: Iterable[Exception | None]) -> None:
        self._failures = iter(failures)

    async def commit(self, _offsets: Mapping[TopicPartition, int], _notes: Mapping[TopicPartition, str]) -> None:
        if failure := next(self._failures):
            raise failure


async def test_a_commit_that_is_not_taken_is_logged_once_as_what_it_is_and_again_when_that_or_the_time_is_another():
    slow, refused = Unanswered("kafka", "no answer in 3 s"), DependencyUnavailable("kafka", "not authorised")
    failures = [slow, slow, refused, refused, None, refused, PartitionLost("counted out")]
    ledger, suspects = Ledger(SETTINGS.limits, SETTINGS.breaker), Suspects()
    fence = StallFence(1.0, 0.0)
    calls = Telemetry(SystemClock()).commit
    committer = Committer(RefusingSource(failures), ledger, fence, suspects, calls)
    ledger.assigned([PARTITION])
    [item] = ledger.receive(PARTITION, [SourceRecord(*PARTITION, 5, 0, None, b"{}", ())], 6, 0.0)
    with capture_logs() as log:
        for failure in failures:
            suspects.accuse([item])  # so that there is something to tell
            await committer.commit()
            expected = Uncommitted(str(failure), answered=failure is not slow) if failure else None
            assert fence.uncommitted == expected
    assert [(line["event"], line["reason"]) for line in log] == [
        ("commit not answered", "kafka: no answer in 3 s"),
        ("commit refused", "kafka: not authorised"),
        ("commit refused", "kafka: not authorised"),
        ("commit refused", "counted out"),
    ]
    assert (calls.succeeded, calls.failed, calls.failed_by[Unanswered]) == (1, 6, 2)
