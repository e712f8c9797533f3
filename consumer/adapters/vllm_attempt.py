"""What an IO processor keeps of a request, and that none of it stays when the request is not answered.

A processor keeps under the request's id, from pre_process to post_process, what it needs later; vLLM never tells it of
a request that ended in between. So every attempt has an id of its own; and one that is not answered, because a hook
failed, the engine refused it, its deadline passed or its partition went to another worker, is taken out of the
processor: by its discard_request, a hook of ours, if it has one, else out of its dictionaries and sets. post_process is
never called without outputs: a processor that writes files or tells others would publish an answer to nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, MutableMapping, MutableSet
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
from typing import Any

from consumer.hooks import HookOverran
from consumer.records import EngineInput


@dataclass(slots=True, weakref_slot=True, eq=False)
class PluginAttempt:
    """One request between pre_process and post_process. Given up, or just dropped, it calls `abandon`, once."""

    request_id: str
    abandon: InitVar[Callable[[str], None]]
    inputs: list[EngineInput] = field(default_factory=list)
    _finalizer: weakref.finalize[..., PluginAttempt] = field(init=False)

    def __post_init__(self, abandon: Callable[[str], None]) -> None:
        self._finalizer = weakref.finalize(self, abandon, self.request_id)
        self._finalizer.atexit = False

    def give_up(self) -> None:
        """It will not be answered."""
        self._finalizer()

    def answered(self) -> None:
        """The processor has let go of it by itself."""
        self._finalizer.detach()


@contextmanager
def given_up_on_failure(attempt: PluginAttempt) -> Iterator[None]:
    """Give it up when a hook of it fails."""
    try:
        yield
    except HookOverran:
        # Its hook has it still: it is dropped when that has come back after all, with what it may leave behind.
        raise
    except BaseException:
        attempt.give_up()
        raise


def take_out(plugin: Any, request_id: str) -> None:
    """Whatever the plugin keeps under this id."""
    if discard_request := getattr(plugin, "discard_request", None):
        discard_request(request_id)
        return
    for owner in (plugin, *type(plugin).__mro__):
        for kept in list(getattr(owner, "__dict__", {}).values()):
            if isinstance(kept, MutableMapping):
                kept.pop(request_id, None)
            elif isinstance(kept, MutableSet):
                kept.discard(request_id)
