"""Runs code of other people's that may be slow, block, or never return: beside the event loop, and not for ever.

A thread cannot be ended from outside. One whose hook does not return is left to it, and its place taken by another; so
many may be lost, and then no more calls are made until one comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

MAX_LOST_THREADS = 3
"""Threads whose hooks did not return in time, and still have not. Each made the calls behind it wait for that long."""
MAX_AWAITED = 64
"""Asynchronous hooks that run at once; more wait, and their time has not begun."""
_BLOCKED_AFTER_SECONDS = 1.0
"""A loop that does not take a callback for so long is held by a hook that does not await."""

_T = TypeVar("_T")


class HookOverran(Exception):
    """A hook did not return in time, or too many before it still have not."""


class Hooks:
    """The hooks of one owner. Used from one event loop.

    Threads are daemons: a hook that never returns must not keep the process from ending.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._one_at_a_time = asyncio.Lock()
        self._awaited = asyncio.Semaphore(MAX_AWAITED)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lost: set[Future[Any]] = set()

    async def call(self, hook: Callable[[], _T]) -> _T:
        """A synchronous hook, in a thread. One at a time: its owner need not be safe for threads.

        Raises HookOverran, or whatever the hook raised; RuntimeError for what is no Exception.
        """
        async with self._one_at_a_time:
            self._refuse_when_lost()
            done: Future[_T] = Future()
            # Whoever stops waiting must not cancel it: it tells when the hook has come back after all.
            done.set_running_or_notify_cancel()
            Thread(target=_call, args=(hook, done), name="hook", daemon=True).start()
            try:
                return await self._in_time(done)
            except HookOverran:
                self._lost.add(done)
                raise

    async def run(self, hook: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """An asynchronous hook, on an event loop that all of this owner share, in a thread of its own.

        Raises as `call` does. What overruns is cancelled; a hook that blocks the loop loses it for those beside it too.
        """
        async with self._awaited:
            self._refuse_when_lost()
            loop = self._hook_loop()
            try:
                return await self._in_time(asyncio.run_coroutine_threadsafe(_run(hook), loop))
            except HookOverran:
                await self._leave_if_blocked(loop)
                raise

    async def _in_time(self, done: Future[_T]) -> _T:
        try:
            async with asyncio.timeout(self._timeout_seconds) as limit:
                return await asyncio.wrap_future(done)
        except TimeoutError:
            if not limit.expired():
                raise
            raise HookOverran(f"did not return within {self._timeout_seconds:g} s") from None

    def _refuse_when_lost(self) -> None:
        self._lost = {one for one in self._lost if not one.done()}
        if len(self._lost) >= MAX_LOST_THREADS:
            raise HookOverran(f"is not called: {len(self._lost)} earlier calls have not returned yet")

    def _hook_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            Thread(target=self._loop.run_forever, name="hooks", daemon=True).start()
        return self._loop

    async def _leave_if_blocked(self, loop: asyncio.AbstractEventLoop) -> None:
        awake: Future[None] = Future()
        awake.set_running_or_notify_cancel()
        loop.call_soon_threadsafe(awake.set_result, None)
        try:
            async with asyncio.timeout(_BLOCKED_AFTER_SECONDS):
                await asyncio.wrap_future(awake)
        except TimeoutError:
            if self._loop is loop:
                self._loop = None
                self._lost.add(awake)
                loop.call_soon_threadsafe(loop.stop)


def _call(hook: Callable[[], _T], done: Future[_T]) -> None:
    try:
        result = hook()
    except BaseException as fault:  # noqa: BLE001 -- handed to whoever waits
        done.set_exception(_as_exception(fault))
    else:
        done.set_result(result)


async def _run(hook: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    try:
        return await hook()
    except BaseException as fault:
        raise _as_exception(fault) from fault


def _as_exception(fault: BaseException) -> Exception:
    """A hook's SystemExit, CancelledError or StopIteration would end, cancel or hang whoever waits for it."""
    if isinstance(fault, Exception) and not isinstance(fault, StopIteration):
        return fault
    return RuntimeError(f"the hook raised {type(fault).__name__}").with_traceback(fault.__traceback__)
