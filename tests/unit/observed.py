"""A worker as its health sees it."""

from dataclasses import dataclass, field

from consumer.breaker import Breaker
from consumer.errors import Hindrance
from consumer.fence import Uncommitted
from consumer.health import Condition, Health, Lifecycle, Watched
from consumer.lane import Lane
from consumer.records import Fetched, Outcome, SourceRecord, Standing, TopicPartition
from consumer.sections import BreakerSettings, HealthSettings
from consumer.windows import MemoryBudget
from schemas.errors import ErrorCode

STUCK_SECONDS = 10
UNREAD_SECONDS = 30
REBALANCE_TIMEOUT_SECONDS = 30
PLACE = TopicPartition("requests", 3)
ANSWER = Outcome(result=None, code=ErrorCode.EXPIRED)


@dataclass
class Observed:
    """A worker that runs, as its health sees it; the test changes what there is to see and lets time pass."""

    now: float = 1000.0
    standing: Standing = Standing.MEMBER
    client_failure: str | None = None
    hindrances: dict[Hindrance, str] = field(default_factory=dict)
    uncommitted: Uncommitted | None = None
    engine_restarting: bool = False
    in_engine: set[object] = field(default_factory=set)
    lanes: dict[TopicPartition, Lane] = field(default_factory=dict)
    fetched: dict[TopicPartition, Fetched] = field(default_factory=dict)
    answering: bool = True
    """Whether the broker answers fetches, with what it said last."""
    memory: MemoryBudget = field(default_factory=lambda: MemoryBudget(10**9, 1.0))

    def __post_init__(self) -> None:
        self.health = Health(
            HealthSettings(stuck_seconds=STUCK_SECONDS, loop_lag_seconds=5, unread_seconds=UNREAD_SECONDS),
            REBALANCE_TIMEOUT_SECONDS,
            self.now,
        )
        self.health.watched = Watched(
            self.lanes,
            lambda: self.standing,
            lambda: self.client_failure,
            lambda: self.hindrances,
            lambda: self.uncommitted,
            lambda: self.engine_restarting,
            lambda: self.in_engine,
            self.fetched.get,
        )
        self.health.lifecycle = Lifecycle.RUNNING
        self.pass_time(1)

    def pass_time(self, seconds: int) -> None:
        """Second by second, as the watchdog looks."""
        for _ in range(seconds):
            self.now += 1
            for partition, fetched in self.fetched.items() if self.answering else ():
                self.fetched[partition] = fetched._replace(answered_ms=round(1000 * self.now))
            self.health.look(self.now)

    def not_live(self) -> set[Condition]:
        return {reason.condition for reason in self.health.not_live(self.now)}

    def not_ready(self) -> set[Condition]:
        return {reason.condition for reason in self.health.not_ready(self.now)}

    def assign(self, partition: TopicPartition = PLACE) -> Lane:
        lane = Lane(partition, self.memory, Breaker(BreakerSettings()))
        self.lanes[partition] = lane
        lane.receive((), 0, 0.0)
        self.answer(0, 0, partition)
        return lane

    def answer(self, readable: int, end: int, partition: TopicPartition = PLACE) -> None:
        """What the broker says from now on, whenever the partition is fetched."""
        self.fetched[partition] = Fetched(round(1000 * self.now), readable, end)


def receive(lane: Lane, count: int) -> None:
    first = lane.next_offset or 0
    records = [SourceRecord(*lane.partition, first + number, 0, None, b"{}", ()) for number in range(count)]
    lane.receive(records, first + count, 0.0)


def settle_head(lane: Lane) -> None:
    assert lane.settle(lane.items[0], ANSWER, 0.0)


def deliver_head(lane: Lane) -> None:
    chunk = lane.take_chunk(max_records=1, max_bytes=10**6, max_uncommitted_records=10**6)
    assert chunk
    lane.delivered(chunk)
