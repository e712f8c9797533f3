"""Inside the engine's processes: end when the worker ends, however it ends.

vLLM's engine process does not look after its parent: after kill -9 of the worker it would stay, with the model in the
GPU's memory, and the next worker would find no room. vLLM calls the entry points of `vllm.general_plugins` in every
process it starts; this is one of them (pyproject.toml).
"""

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait


def end_with_parent() -> None:
    """Called by vLLM in each of its processes; does nothing in the worker itself."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    threading.Thread(target=_follow, args=(parent.sentinel,), name="end-with-parent", daemon=True).start()


def _follow(parent_sentinel: int) -> None:
    wait([parent_sentinel])
    # Nothing here is worth saving, and a handler would only wait for work that nobody reads.
    os.kill(os.getpid(), signal.SIGKILL)
