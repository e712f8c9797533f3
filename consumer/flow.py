"""THE path, top to bottom.

receive -> decode, prepare -> admit -> engine -> shape, settle -> emit in order -> acknowledge -> commit

Loops on one event loop; between them stand the ledger (what is where) and the windows (how much may be inside).
Data moves down this file. Only three things travel back up: room (windows to intake), the closing of a lane (rebalance
to ledger), and the watermark (ledger to committer). An exception that leaves a loop ends the process: nothing that was
not acknowledged has been committed, so whoever comes next finds all of it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from consumer.arrivals import Arrivals
from consumer.clock import Clock
from consumer.committer import Committer
from consumer.daemon_threads import DaemonThreads
from consumer.delivery import Delivery
from consumer.errors import EngineDead, MicroBatchFailed
from consumer.fence import StallFence
from consumer.forming import Former, MicroBatch
from consumer.interfaces import DeadLetterWriter, RecordSource, ResultWriter, ScoreStore
from consumer.item import Item, Scored
from consumer.lane import Chunk, Lane
from consumer.ledger import Ledger
from consumer.membership import Membership
from consumer.metrics.telemetry import Telemetry
from consumer.records import Later, Outcome, Prepared, Refusal, SourceRecord, Step, TopicPartition
from consumer.recovery import Recovery
from consumer.revival import RevivableEngine
from consumer.settings import Settings
from consumer.settlement import Settlement
from consumer.signals import Signal
from consumer.stages.answer import Answerer
from consumer.stages.hand_over import hand_over
from consumer.stages.prepare import EXPIRED, Preparer
from consumer.suspects import Suspects
from consumer.tally import Tally
from consumer.tracing import Tracing
from consumer.windows import EngineWindow
from schemas.errors import ErrorCode

FETCH_WAIT_SECONDS = 0.2
"""How long an intake with nothing to take waits inside the client before it looks at the lanes' room again."""
LOOK_SECONDS = 0.2
"""Between two looks at the time; far below half a session."""

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class Ports:
    """The world, as the path needs it."""

    source: RecordSource
    engine: RevivableEngine
    results: ResultWriter
    dead_letters: DeadLetterWriter
    scores: ScoreStore
    tracing: Tracing


class Flow:
    """Requests become committed scores. One per process; `run` until cancelled or `drain`ed."""

    def __init__(self, ports: Ports, preparer: Preparer, answerer: Answerer, settings: Settings, clock: Clock) -> None:
        self.ledger = Ledger(settings.limits, settings.breaker)
        self.window = EngineWindow(
            settings.engine.max_num_seqs, settings.engine.max_num_batched_tokens, settings.engine.steps_in_flight
        )
        ports.engine.watch_steps(self._step_returned)
        self.tally, self.telemetry = Tally(), Telemetry(clock)
        self._ports = ports
        self._preparer = preparer
        self._answerer = answerer
        self._former = Former(settings.micro_batch)
        self._settings = settings
        self._clock = clock
        self._stages = DaemonThreads(2, "stages")
        self._arrivals = Arrivals()
        self._emitting: set[Lane] = set()
        self._delivering: dict[Lane, asyncio.Task[None]] = {}
        self._accepting = True
        self._admission, self._settled, self._progress, self._stalled = Signal(), Signal(), Signal(), Signal()
        self.suspects = Suspects()
        self.fence = StallFence(settings.kafka.session_timeout_seconds / 2, clock.monotonic())
        self._committer = Committer(ports.source, self.ledger, self.fence, self.suspects, self.telemetry.commit)
        self._settlement = Settlement(answerer, clock, self.tally, self._emit_from, self._arrivals.add)
        self.recovery = Recovery(ports.engine, self.suspects, self._committer, self._settlement)
        self._delivery = Delivery(
            results=ports.results,
            dead_letters=ports.dead_letters,
            scores=ports.scores,
            mode=settings.redis.mode,
            tally=self.tally,
            telemetry=self.telemetry,
        )
        self._membership = Membership(
            source=ports.source,
            ledger=self.ledger,
            committer=self._committer,
            fence=self.fence,
            suspects=self.suspects,
            telemetry=self.telemetry,
            progress=self._progress,
            stop_delivery=self._stop_delivery,
        )
        self._tasks: asyncio.TaskGroup

    async def run(self) -> None:
        """All loops, until one fails (raises its exception in a group) or this task is cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            for loop in (self._receive, self._prepare, self._score, self._emit, self._commit, self._look):
                self._tasks.create_task(loop())

    # ------------------------------------------------------------------------------------------------- receive

    async def _receive(self) -> None:
        """Ask each partition for what fits; a partition without room is not asked, and so holds Kafka back."""
        while self._accepting:
            room = self.ledger.room()
            if room or not self.ledger.lanes:
                await self._ports.source.fetch(room, self._received, FETCH_WAIT_SECONDS)
            else:
                await self._progress.wait(FETCH_WAIT_SECONDS)

    def _received(self, partition: TopicPartition, records: Sequence[SourceRecord], next_offset: int) -> None:
        items = self.ledger.receive(partition, records, next_offset, self._clock.monotonic())
        self.tally.received += len(items)
        self._ports.tracing.received(items)
        if items and items[0].lane.may_start:
            self._arrivals.add(items)

    # ---------------------------------------------------------------------------------------- decode, prepare

    async def _prepare(self) -> None:
        """Bytes to token ids, in batches, outside the event loop."""
        while True:
            attempts = await self._arrivals.next_batch()
            prepare = partial(self._preparer.prepare, now_unix_ms=self._clock.unix_ms())
            with self.telemetry.prepare.call():
                prepared_batch = await self._in_thread(prepare, [item.record for item, _ in attempts])
            for (item, attempt), prepared in zip(attempts, prepared_batch, strict=True):
                self._prepared(item, attempt, prepared)
            self._admission.notify()

    def _prepared(self, item: Item, attempt: int, prepared: Prepared | Refusal | Later[Prepared | Refusal]) -> None:
        if item.attempt != attempt or not item.unanswered:
            return
        if isinstance(prepared, Later):
            self._tasks.create_task(self._later(prepared, partial(self._prepared, item, attempt)))
        elif isinstance(prepared, Refusal):
            self._settlement.settle(item, self._answerer.refuse(item.record, attempt, prepared))
        elif not prepared.inputs:
            self._answered(item, attempt, self._answerer.answer(item.record, attempt, prepared, ()))
        elif self.suspects.recognise(item):
            item.prepared = prepared
            self.recovery.reject(item)
        else:
            item.lane.make_ready(item, prepared, self._clock.monotonic())

    async def _later(self, outcome: Later[_Out], then: Callable[[_Out], None]) -> None:
        """Somebody else's code, beside the path: what it delays is its own record."""
        then(await outcome.work())
        self._admission.notify()

    # ------------------------------------------------------------------------------------------ admit -> engine

    async def _score(self) -> None:
        """Form micro-batches of what the engine's window has room for; several are in the engine at once."""
        while True:
            now = self._clock.monotonic()
            wait_seconds = self._former.wait_seconds(self.ledger.lanes.values(), self.window, now)
            if wait_seconds != 0 or not self.recovery.engine_lives:
                await self._admission.wait(wait_seconds or None)
                continue
            formed = self._former.form(self.ledger.lanes.values(), self.window, now, self._clock.unix_ms())
            for item in formed.expired:
                self._settlement.refuse(item, ErrorCode.EXPIRED, EXPIRED)
            for batch in formed.batches:
                self._enter_engine(batch)
            if not formed.batches and not formed.expired:
                await self._admission.wait()

    def _enter_engine(self, batch: MicroBatch) -> None:
        """In one step with the look at whether the engine lives: what is inside when it dies is put back."""
        self.window.take(len(batch.inputs), batch.tokens)
        self.recovery.inside.add(batch)
        self.telemetry.micro_batch_sequences.observe(len(batch.inputs))
        self._tasks.create_task(self._score_batch(batch))

    def _step_returned(self, step: Step) -> None:
        self.window.step_returned(step)
        self._admission.notify()

    # ------------------------------------------------------------------------------- engine -> shape -> settle

    async def _score_batch(self, batch: MicroBatch) -> None:
        try:
            with self.telemetry.engine.call(), self._ports.tracing.micro_batch(batch):
                outputs = await self._ports.engine.submit(batch.inputs)
        except EngineDead as death:
            await self.recovery.engine_died(batch, death)
            return
        except MicroBatchFailed as failure:
            for half in self.recovery.divided(batch, failure):
                self._enter_engine(half)
            return
        finally:
            self.recovery.inside.discard(batch)
            self.window.give_back(len(batch.inputs), batch.tokens)
            self._admission.notify()
        self.tally.scored_sequences += len(batch.inputs)
        self.tally.scored_tokens += batch.tokens
        complete = batch.put_back(outputs, self._clock.monotonic())
        # Taken now: while the stage runs, the breaker may open and forget these attempts.
        scored = [item.scored for item in complete]
        with self.telemetry.shape.call():
            outcomes = await self._in_thread(self._answer, scored)
        for item, (_, attempt, _, _), outcome in zip(complete, scored, outcomes, strict=True):
            self._answered(item, attempt, outcome)

    def _answered(self, item: Item, attempt: int, outcome: Outcome | Later[Outcome]) -> None:
        if item.attempt != attempt:
            return
        if isinstance(outcome, Later):
            self._tasks.create_task(self._later(outcome, partial(self._answered, item, attempt)))
        else:
            self._settlement.settle(item, outcome)

    async def engine_hangs(self, silence: EngineDead) -> None:
        """The engine lives and does not answer: as if it had died. Raises EngineDead when it may not be restarted."""
        await self.recovery.replace_engine(silence)
        self._admission.notify()

    def _answer(self, scored: Sequence[Scored]) -> list[Outcome | Later[Outcome]]:
        return [self._answerer.answer(*one) for one in scored]

    # ------------------------------------------------------------------------------------- emit -> acknowledge

    async def _emit(self) -> None:
        """From each lane's head, in order, one chunk at a time."""
        limits = self._settings.limits
        while True:
            while not self._emitting or self.fence.look(self._clock.monotonic()):
                await self._settled.wait()
            lane = self._emitting.pop()
            chunk = lane.take_chunk(limits.chunk_records, limits.chunk_bytes, limits.max_uncommitted_records)
            if chunk:
                self._delivering[lane] = self._tasks.create_task(self._deliver(chunk))

    async def _deliver(self, chunk: Chunk) -> None:
        """Out of the worker, acknowledged by every sink; then the chunk leaves the ledger."""
        lane, now = chunk.lane, self._clock.monotonic()
        out = hand_over(chunk, now, self._clock.unix_ms())
        await self._delivery.deliver(lane, out)
        lane.delivered(chunk)
        self.suspects.delivered(chunk.items)
        self._delivering.pop(lane, None)
        self.tally.delivered(chunk.items)
        self.telemetry.delivered(chunk.items, out.stages, now)
        self._ports.tracing.delivered(chunk.items, out.stages, now)
        self._emit_from(lane)
        self._progress.notify()

    def _emit_from(self, *lanes: Lane) -> None:
        self._emitting.update(lanes)
        self._settled.notify()

    # --------------------------------------------------------------------------------------------------- commit

    async def _commit(self) -> None:
        while True:
            await self._stalled.wait(self._settings.commit.interval_ms / 1000)
            self._emit_from(*await self._committer.commit())

    async def _look(self) -> None:
        """Whether this loop has stalled, and which held lane is to be tried again."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.fence.look(self._clock.monotonic()):
                self._stalled.notify()
            self._settlement.probe(self.ledger.lanes.values())

    # ------------------------------------------------------------------------------------ assign, revoke, drain

    async def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """New lanes; see Membership."""
        for lane in await self._membership.assigned(partitions):
            self._arrivals.add(lane.items)

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Finish these lanes within the revoke budget; see Membership."""
        self._admission.notify()
        await self._membership.release(partitions, self._settings.shutdown.revoke_seconds)

    async def drain(self) -> None:
        """Take nothing new, and finish all lanes within the drain budget."""
        self._accepting = False
        self._progress.notify()
        self._admission.notify()
        await self._membership.release(list(self.ledger.lanes), self._settings.shutdown.drain_seconds)

    def _stop_delivery(self, lane: Lane) -> None:
        if delivery := self._delivering.pop(lane, None):
            delivery.cancel()

    async def _in_thread(self, work: Callable[[Sequence[_In]], list[_Out]], inputs: Sequence[_In]) -> list[_Out]:
        """A pure stage over a batch, outside the event loop, which has heartbeats to send meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._stages, work, inputs)
