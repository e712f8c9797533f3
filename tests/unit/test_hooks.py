"""Other people's code may be slow, block or never return; that is its own matter and nobody else's."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from consumer.hooks import MAX_AWAITED, MAX_LOST_THREADS, HookOverran, Hooks

SHORT_SECONDS = 0.2
"""The time limit in tests in which a hook overruns."""
LONG_SECONDS = 60.0
"""In tests in which none does, also on a busy machine."""


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """What blocked hooks wait for; set in the end."""
    event = threading.Event()
    yield event
    event.set()


async def test_synchronous_hooks_run_one_at_a_time_beside_the_event_loop():
    running: list[str] = []

    def hook() -> str:
        running.append("in")
        time.sleep(0.01)
        assert running.pop() == "in"
        assert not running
        return threading.current_thread().name

    hooks = Hooks(LONG_SECONDS)
    names = await asyncio.gather(*(hooks.call(hook) for _ in range(10)))
    assert threading.current_thread().name not in names


async def test_asynchronous_hooks_run_together_on_a_loop_of_their_own():
    arrived: list[int] = []

    async def meet(number: int, everybody: int) -> asyncio.AbstractEventLoop:
        arrived.append(number)
        while len(arrived) < everybody:  # noqa: ASYNC110 -- one alone would wait for ever
            await asyncio.sleep(0.001)
        return asyncio.get_running_loop()

    hooks = Hooks(LONG_SECONDS)
    loops = await asyncio.gather(*(hooks.run(lambda number=number: meet(number, 20)) for number in range(20)))
    assert len(set(loops)) == 1
    assert asyncio.get_running_loop() not in loops


async def test_more_asynchronous_hooks_than_may_run_at_once_wait_without_overrunning():
    async def nap() -> None:
        await asyncio.sleep(0.05)

    hooks = Hooks(LONG_SECONDS)
    await asyncio.gather(*(hooks.run(nap) for _ in range(2 * MAX_AWAITED)))


async def test_a_hook_that_never_returns_overruns_and_the_next_one_is_served(released: threading.Event):
    hooks = Hooks(SHORT_SECONDS)
    with pytest.raises(HookOverran, match=r"within 0\.2 s"):
        await hooks.call(released.wait)
    assert await hooks.call(lambda: "served") == "served"


async def test_too_many_hooks_that_have_not_returned_end_the_calls_until_one_comes_back(released: threading.Event):
    hooks = Hooks(SHORT_SECONDS / 4)
    for _ in range(MAX_LOST_THREADS):
        with pytest.raises(HookOverran, match="within"):
            await hooks.call(released.wait)
    with pytest.raises(HookOverran, match=f"{MAX_LOST_THREADS} earlier calls"):
        await hooks.call(lambda: "served")
    released.set()
    async with asyncio.timeout(LONG_SECONDS):
        while True:
            try:
                assert await hooks.call(lambda: "served") == "served"
                break
            except HookOverran:
                await asyncio.sleep(0.01)


async def test_an_asynchronous_hook_that_overruns_is_cancelled():
    ended = threading.Event()

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    hooks = Hooks(SHORT_SECONDS)
    with pytest.raises(HookOverran):
        await hooks.run(for_ever)
    assert await asyncio.to_thread(ended.wait, LONG_SECONDS)


async def test_an_asynchronous_hook_that_blocks_its_loop_does_not_hold_the_next(released: threading.Event):
    async def block() -> None:
        released.wait()

    async def quick() -> str:
        return "served"

    hooks = Hooks(SHORT_SECONDS)
    with pytest.raises(HookOverran):
        await hooks.run(block)
    hooks._timeout_seconds = LONG_SECONDS
    assert await hooks.run(quick) == "served"


@pytest.mark.parametrize("fault", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, StopIteration, GeneratorExit])
async def test_what_would_end_or_cancel_the_worker_is_an_ordinary_fault_of_the_hook(fault: type[BaseException]):
    def hook() -> None:
        raise fault

    async def asynchronous() -> None:
        raise fault

    hooks = Hooks(LONG_SECONDS)
    with pytest.raises(RuntimeError, match=fault.__name__):
        await hooks.call(hook)
    with pytest.raises(RuntimeError, match=fault.__name__):
        await hooks.run(asynchronous)


async def test_a_timeout_that_the_hook_raises_itself_is_its_own_and_no_overrun():
    def hook() -> None:
        raise TimeoutError("its own")

    async def asynchronous() -> None:
        raise TimeoutError("its own")

    hooks = Hooks(LONG_SECONDS)
    with pytest.raises(TimeoutError, match="its own"):
        await hooks.call(hook)
    with pytest.raises(TimeoutError, match="its own"):
        await hooks.run(asynchronous)
