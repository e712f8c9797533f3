"""One kind of model beside what transformers says of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.parity.every_kind import EVERY_KIND
from tests.parity.kinds import Kind
from tests.parity.loaded import Loaded, load_forked


@dataclass(frozen=True)
class Compared:
    """`expected`: [64, n], of the kind's texts."""

    kind: Kind
    loaded: Loaded
    expected: np.ndarray


async def start(name: str) -> Compared:
    """One of `tests.parity`'s kinds, with its engine."""
    (kind,) = [kind for kind in EVERY_KIND if kind.name == name]
    folder = kind.folder()
    expected = kind.expected(folder)
    return Compared(kind, await load_forked(folder, **kind.settings), expected)
