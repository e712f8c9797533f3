"""What is alive, what is ready, and why not. No I/O and no clock: both are passed in.

Alive means that a restart would not help. Ready means that the worker scores what it is given. A dependency that is
away makes a worker unready, never dead: a broker outage must not make every worker load its model again.

| what is wrong                                         | live | ready | and then                              |
| ----------------------------------------------------- | ---- | ----- | ------------------------------------- |
| the event loop does not run, or runs late             | no   | no    | whoever asks gets no answer           |
| a task of the Kafka client has ended                  | no   | no    | the process exits at the next fetch   |
| a head does not move, and nothing holds its lane      | no   | no    | the process exits after as long again |
| the process is on its way out with a failure          | no   | no    | it exits                              |
| the engine does not give back what it got             | yes  | yes   | it counts as dead                     |
| starting, warming, draining                           | yes  | no    |                                       |
| the engine is restarted in place: it died, or hung    | yes  | no    | if it may not be, the process exits   |
| a dependency or the breaker holds a lane              | yes  | no    |                                       |
| the broker refuses commits                            | yes  | no    |                                       |
| the broker does not answer commits in time            | yes  | no    |                                       |
| the broker refuses to let it read, or be a member     | yes  | no    |                                       |
| no broker lets it in                                  | yes  | no    |                                       |
| there is no token to come to the brokers with         | yes  | no    |                                       |
| no broker can be reached                              | yes  | no    |                                       |
| not a member of the group, or no coordinator answers  | yes  | no    |                                       |
| a rebalance, for longer than twice its timeout        | yes  | no    |                                       |
| a partition has something to read, and nothing comes  | yes  | no    |                                       |
| an open transaction keeps a partition from being read | yes  | no    |                                       |
| a rebalance                                           | yes  | yes   |                                       |
| no partition was assigned                             | yes  | yes   |                                       |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from consumer.errors import Hindrance, PartitionStuck
from consumer.fence import Uncommitted
from consumer.item import Item, ItemState
from consumer.lane import Lane, LaneState
from consumer.records import Fetched, Standing, TopicPartition
from consumer.sections import HealthSettings
from consumer.unread import Cause, Unread

LOOK_SECONDS = 1.0
"""Between two looks of the watchdog; how late a look comes is the lag of the event loop."""


class Lifecycle(Enum):
    """Where the process is; each transition is logged once."""

    STARTING = "starting"
    WARMING = "warming"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


class Condition(StrEnum):
    """What can be wrong, one name each."""

    FAILED = "failed"
    LOOP_LAGS = "loop_lags"
    CLIENT_ENDED = "client_ended"
    LANE_STUCK = "lane_stuck"
    NOT_RUNNING = "not_running"
    ENGINE_RESTARTING = "engine_restarting"
    NOT_A_MEMBER = "not_a_member"
    REBALANCE_TOO_LONG = "rebalance_too_long"
    LANE_HELD = "lane_held"
    COMMITS_REFUSED = "commits_refused"
    COMMITS_UNANSWERED = "commits_unanswered"
    LANE_STARVED = "lane_starved"
    TRANSACTION_OPEN = "transaction_open"
    SOURCE_REFUSED = Hindrance.SOURCE_REFUSED.value
    AUTHENTICATION_FAILED = Hindrance.AUTHENTICATION_FAILED.value
    TOKEN_UNAVAILABLE = Hindrance.TOKEN_UNAVAILABLE.value
    BROKER_AWAY = Hindrance.BROKER_AWAY.value


_UNREAD = {Cause.STARVED: Condition.LANE_STARVED, Cause.OPEN_TRANSACTION: Condition.TRANSACTION_OPEN}


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that is wrong."""

    condition: Condition
    detail: str


@dataclass(frozen=True, slots=True)
class StuckHead:
    """A request at the head of its partition that could come on and has not, for so many seconds that the loop ran."""

    topic: str
    partition: int
    offset: int
    seconds: float

    def __str__(self) -> str:
        """Its place, and for how long."""
        return f"{self.topic}[{self.partition}] at offset {self.offset} has not moved for {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class Watched:
    """What there is to see once the model is loaded; each is asked at every look, and never waits."""

    lanes: Mapping[TopicPartition, Lane]
    standing: Callable[[], Standing]
    client_failure: Callable[[], str | None]
    hindrances: Callable[[], Mapping[Hindrance, str]]
    uncommitted: Callable[[], Uncommitted | None]
    engine_restarting: Callable[[], bool]
    in_engine: Callable[[], Collection[object]]
    last_fetch: Callable[[TopicPartition], Fetched | None]


@dataclass(frozen=True, slots=True)
class _Place:
    """How far the head of a lane has come; it moved if this changed."""

    head: Item
    state: ItemState
    attempt: int
    submitted: int
    returned: int


class Health:
    """One process's. `now` is monotonic seconds everywhere. The worker sets what it knows and looks every second."""

    def __init__(self, settings: HealthSettings, rebalance_timeout_seconds: float, now: float) -> None:
        self.lifecycle = Lifecycle.STARTING
        self.failure: str | None = None
        """What failed, once something has and the process is about to exit: the engine's silence, for instance."""
        self.watched: Watched | None = None
        self.loop_lag_seconds = 0.0
        """How late the last look came."""
        self.unread = Unread(settings.unread_seconds)
        self._settings = settings
        self._rebalance_limit_seconds = 2 * rebalance_timeout_seconds
        self._looked_at = now
        self._awake_seconds = 0.0
        self._member_at: float | None = None
        self._places: dict[Lane, tuple[_Place, float]] = {}
        self._entered: dict[object, float] = {}
        self._told: set[Item] = set()

    def look(self, now: float) -> None:
        """Once every LOOK_SECONDS. Raises PartitionStuck when a lane, or the engine, has been stuck for too long.

        Only time in which the loop ran counts against a lane: after a stall (SIGSTOP, a paused machine) nothing can
        have moved yet.
        """
        passed_seconds = now - self._looked_at
        self._looked_at = now
        self.loop_lag_seconds = max(0.0, passed_seconds - LOOK_SECONDS)
        self._awake_seconds += min(passed_seconds, 2 * LOOK_SECONDS)
        if self.watched is None:
            return
        if self.watched.standing() is Standing.MEMBER:
            self._member_at = now
        self._note_places(self.watched)
        # Who is outside of the group, or kept from Kafka by something that has a name, reads nothing for that.
        reads = self.watched.standing() is Standing.MEMBER and not self.watched.hindrances()
        lanes = self.watched.lanes.values()
        self.unread.look(lanes, self.watched.last_fetch if reads else None, self._awake_seconds)
        self._entered = {one: self._entered.get(one, self._awake_seconds) for one in self.watched.in_engine()}
        # Before liveness fails: whoever kills the process then would not know which record to suspect.
        if any(self._awake_seconds - since > self._settings.stuck_seconds for since in self._entered.values()):
            raise PartitionStuck(
                f"the engine has not given back what it got {self._settings.stuck_seconds:g} s ago", in_engine=True
            )
        stuck = self._stuck(self.watched)
        if stuck and stuck[0][1] > 2 * self._settings.stuck_seconds:
            heads = (f"{_head(lane, seconds)}, and nothing holds it: {lane!r}" for lane, seconds in stuck)
            raise PartitionStuck("; ".join(heads), in_engine=False)

    def newly_stuck(self) -> list[StuckHead]:
        """Each head once, when a look has found it stuck; the longest first. To be asked after each look.

        Asked with no await in between, it is told before liveness can fail.
        """
        if self.watched is None:
            return []
        stuck = self._stuck(self.watched)
        new = [_head(lane, seconds) for lane, seconds in stuck if lane.items[0] not in self._told]
        heads = {lane.items[0] for lane in self.watched.lanes.values() if lane.items}
        self._told = (self._told | {lane.items[0] for lane, _ in stuck}) & heads
        return new

    @property
    def stuck_seconds(self) -> float:
        """Motionless for longer, a partition makes the worker not live."""
        return self._settings.stuck_seconds

    def motionless_seconds(self) -> Iterator[tuple[TopicPartition, float]]:
        """Of each partition: for how long its head could have moved and has not, in seconds that the loop ran."""
        if self.watched is None:
            return
        motionless = dict(self._motionless(self.watched))
        for partition, lane in self.watched.lanes.items():
            yield partition, motionless.get(lane, 0.0)

    def not_live(self, now: float) -> list[Reason]:
        """Why a restart is due; empty when it is not."""
        if self.failure is not None:
            return [Reason(Condition.FAILED, self.failure)]
        reasons = []
        lag_seconds = max(self.loop_lag_seconds, now - self._looked_at - LOOK_SECONDS)
        if lag_seconds > self._settings.loop_lag_seconds:
            reasons.append(Reason(Condition.LOOP_LAGS, f"the event loop is {lag_seconds:.1f} s late"))
        if self.watched is not None:
            if failure := self.watched.client_failure():
                reasons.append(Reason(Condition.CLIENT_ENDED, failure))
            for lane, seconds in self._stuck(self.watched):
                reasons.append(Reason(Condition.LANE_STUCK, f"{lane!r} has not moved for {seconds:.0f} s"))
        return reasons

    def not_ready(self, now: float) -> list[Reason]:
        """Why this worker does not score all that it should, causes first; empty when it does."""
        if self.lifecycle is not Lifecycle.RUNNING or self.watched is None:
            return [Reason(Condition.NOT_RUNNING, f"the worker is {self.lifecycle.value}"), *self.not_live(now)]
        # Causes before what comes of them: without Kafka there is no member, and without a member no commit.
        return [
            *self.not_live(now),
            *self._engine(self.watched),
            *self._hindered(self.watched),
            *self._outside(self.watched, now),
            *self._held(self.watched),
            *(Reason(_UNREAD[unread.cause], str(unread)) for unread in self.unread.too_long()),
        ]

    def _engine(self, watched: Watched) -> Iterator[Reason]:
        if watched.engine_restarting():
            yield Reason(Condition.ENGINE_RESTARTING, "the engine died and is started again")

    def _hindered(self, watched: Watched) -> Iterator[Reason]:
        # The clients that write may be refused before the one that reads: each connection lasts as long as it lasts.
        holds = (held for lane in watched.lanes.values() for held in lane.holds.values())
        of_writers = {held.hindrance: held.why for held in holds if held.hindrance is not None}
        for hindrance, why in (of_writers | dict(watched.hindrances())).items():
            yield Reason(Condition(hindrance.value), why)

    def _outside(self, watched: Watched, now: float) -> Iterator[Reason]:
        match watched.standing():
            case Standing.MEMBER:
                return
            case Standing.REBALANCING if self._member_at is not None:
                seconds = now - self._member_at
                if seconds > self._rebalance_limit_seconds:
                    yield Reason(Condition.REBALANCE_TOO_LONG, f"the group has been rebalancing for {seconds:.0f} s")
            case Standing.REBALANCING:
                yield Reason(Condition.NOT_A_MEMBER, "the worker is joining the group")
            case Standing.OUTSIDE:
                yield Reason(Condition.NOT_A_MEMBER, "the group's coordinator does not answer")

    def _held(self, watched: Watched) -> Iterator[Reason]:
        if uncommitted := watched.uncommitted():
            condition = Condition.COMMITS_REFUSED if uncommitted.answered else Condition.COMMITS_UNANSWERED
            yield Reason(condition, uncommitted.reason)
        for lane in watched.lanes.values():
            for hold, held in lane.holds.items():
                yield Reason(Condition.LANE_HELD, f"{hold.value} holds {lane!r}: {held.why}")

    def _note_places(self, watched: Watched) -> None:
        """Since when, in seconds that the loop ran, each lane's head is where it is and could move."""
        places = {}
        for lane in watched.lanes.values():
            if lane.items and _should_move(lane, watched):
                head = lane.items[0]
                place = _Place(head, head.state, head.attempt, head.submitted, head.returned)
                before = self._places.get(lane)
                places[lane] = before if before and before[0] == place else (place, self._awake_seconds)
        self._places = places

    def _stuck(self, watched: Watched) -> list[tuple[Lane, float]]:
        """Lanes that have been motionless for longer than the limit, and for how long; the longest first."""
        stuck = [one for one in self._motionless(watched) if one[1] > self._settings.stuck_seconds]
        return sorted(stuck, key=lambda one: one[1], reverse=True)

    def _motionless(self, watched: Watched) -> Iterator[tuple[Lane, float]]:
        """Lanes that could move and, at the last look, had not for so many seconds."""
        for lane, (place, since) in self._places.items():
            still_there = lane.items and lane.items[0] is place.head and lane.items[0].state is place.state
            if still_there and _should_move(lane, watched):
                yield lane, self._awake_seconds - since


def _head(lane: Lane, seconds: float) -> StuckHead:
    return StuckHead(*lane.partition, lane.items[0].offset, seconds)


def _should_move(lane: Lane, watched: Watched) -> bool:
    """Whether a lane that has something does not wait for anything but this process.

    A chunk on its way out waits for its sinks, which have deadlines of their own and then hold the lane by name; a
    head that the engine has waits for the engine, which is watched by itself.
    """
    if lane.state is not LaneState.OPEN or lane.held_by or lane.outstanding or watched.engine_restarting():
        return False
    if lane.items[0].in_engine:
        return False
    return lane.items[0].state is not ItemState.SETTLED or watched.uncommitted() is None
