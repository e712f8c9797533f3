"""An engine that died is replaced once in a period, and pings do not mistake the replacement for another death."""

import asyncio

import pytest

from consumer.errors import EngineDead
from consumer.revival import RevivableEngine


class Engine:
    """Alive until `dead`; counts its stops."""

    def __init__(self) -> None:
        self.dead = False
        self.stops = 0

    def submit(self, inputs):
        raise NotImplementedError

    def watch_steps(self, watch):
        self.watch = watch

    async def ping(self, timeout_seconds):
        if self.dead:
            raise EngineDead("dead")

    async def stop(self):
        self.stops += 1


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now

    def unix_ms(self):
        return 0


async def test_second_death_within_the_period_is_final():
    clock, engines = Clock(), [Engine(), Engine(), Engine()]
    waiting = iter(engines[1:])

    async def start():
        return next(waiting)

    engine = RevivableEngine(engines[0], start, 3600.0, clock)
    await engine.revive(EngineDead("first"))
    clock.now += 3599
    with pytest.raises(EngineDead, match="second"):
        await engine.revive(EngineDead("second"))
    clock.now += 1
    await engine.revive(EngineDead("third"))
    assert [one.stops for one in engines] == [1, 1, 0]


async def test_ping_while_the_new_engine_starts_tells_no_death():
    first, started = Engine(), asyncio.Event()
    first.dead = True

    async def start():
        await started.wait()
        return Engine()

    engine = RevivableEngine(first, start, 3600.0, Clock())
    with pytest.raises(EngineDead):
        await engine.ping(1.0)
    reviving = asyncio.create_task(engine.revive(EngineDead("first")))
    await asyncio.sleep(0)
    assert engine.restarting
    await engine.ping(1.0)
    started.set()
    await reviving
    assert not engine.restarting
    await engine.ping(1.0)


async def test_whoever_watches_the_steps_watches_those_of_the_engine_that_lives():
    engines = [Engine(), Engine()]

    async def start():
        return engines[1]

    engine = RevivableEngine(engines[0], start, 3600.0, Clock())
    steps = []
    engine.watch_steps(steps.append)
    engines[0].watch("before")
    await engine.revive(EngineDead("dead"))
    engines[1].watch("after")
    assert steps == ["before", "after"]
