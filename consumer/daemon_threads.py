"""Threads that are left behind when the process ends.

Those of ThreadPoolExecutor are waited for at the interpreter's end. A tokenizer that never returns would keep a worker
that gave up because of it from ending: out of the group, without a port, and not restarted by anybody.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Call(NamedTuple):
    function: Callable[[], Any]
    future: Future[Any]


class DaemonThreads(Executor):
    """So many, which end when nobody has this executor any more."""

    def __init__(self, count: int, name: str) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        for number in range(count):
            Thread(target=_work, args=(self._calls,), name=f"{name}_{number}", daemon=True).start()
        weakref.finalize(self, _end, self._calls, count).atexit = False

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """As every executor."""
        future: Future[_T] = Future()
        self._calls.put(_Call(partial(fn, *args, **kwargs), future))
        return future


def _work(calls: SimpleQueue[_Call | None]) -> None:
    while call := calls.get():
        if call.future.set_running_or_notify_cancel():
            try:
                result = call.function()
            except BaseException as fault:  # noqa: BLE001 -- handed to whoever waits
                call.future.set_exception(fault)
            else:
                call.future.set_result(result)
                del result
        # While it waits for the next one, the last batch is not kept alive.
        del call


def _end(calls: SimpleQueue[_Call | None], count: int) -> None:
    for _ in range(count):
        calls.put(None)
