"""Where downloads and built test data are kept, outside the checkout.

Runs on any Python 3.8 or newer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/scorestream`, by default `~/.cache/scorestream`; made when missing."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "scorestream"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Hold `lock` against other processes of this machine; the second waits until the first is done."""
    with lock.open("a", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
