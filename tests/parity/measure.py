"""How far the worker's numbers are from transformers', for one kind of model: alone, in company, again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from consumer.records import Shaped
from tests.parity.kinds import TEXTS, Kind
from tests.parity.loaded import Loaded

WITHIN = 1e-4
"""Of a logit, in float32."""
CONCURRENT = 200
REPEATS = 3


@dataclass(frozen=True)
class Differences:
    """The largest |d logit| of each way to ask. `repeated`: the same 64 again, three times, out of the prefix cache."""

    alone: float
    together: float
    concurrent: float
    repeated: float

    @property
    def largest(self) -> float:
        return max(self.alone, self.together, self.concurrent, self.repeated)


async def measure(loaded: Loaded, kind: Kind, expected: np.ndarray) -> Differences:
    """`expected`: [64, n], what transformers says."""
    everyone = range(len(TEXTS))

    def difference(shaped: Sequence[Shaped], rows: Sequence[int]) -> float:
        elements = [one for result in shaped for one in sorted(result.results, key=lambda one: int(one["index"]))]
        found = np.array([kind.numbers(element) for element in elements], dtype=np.float32)
        assert found.shape == (len(rows), expected.shape[1])
        return float(np.abs(found - expected[list(rows)]).max())

    alone = [difference([await loaded.answer(kind.request([row]))], [row]) for row in everyone[::5]]
    together = difference([await loaded.answer(kind.request(everyone))], everyone)
    rows = [number * 7 % len(TEXTS) for number in range(CONCURRENT)]
    concurrent = await loaded.answer_together([kind.request([row]) for row in rows])
    repeated = [difference([await loaded.answer(kind.request(everyone))], everyone) for _ in range(REPEATS)]
    return Differences(max(alone), together, difference(concurrent, rows), max(repeated))
