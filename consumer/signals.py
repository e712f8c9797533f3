"""Wake-ups between the loops of one event loop."""

import asyncio


class Signal:
    """Wakes everybody who waits. Remembers nothing: check the condition, and wait without an await in between."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """Wake all that wait now."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    async def wait(self, timeout_seconds: float | None = None) -> None:
        """Until the next notify, or the timeout; which of the two, the caller's condition tells."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=timeout_seconds)
        finally:
            self._waiting.discard(waiter)
