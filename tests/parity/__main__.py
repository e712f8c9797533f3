"""Print, for every kind of model, how far its numbers are from transformers' in float32: python -m tests.parity [WORD].

With WORD only kinds with that in their name. Exits with 1 when a difference is larger than 1e-4.
"""

import asyncio
import sys

from tests.parity.every_kind import EVERY_KIND
from tests.parity.loaded import load_forked
from tests.parity.measure import WITHIN, measure

COLUMNS = ("kind", "model", "alone", "64 together", "200 concurrent", "cached, 3 x")
ROW = "{:<44} {:<36} {:>9} {:>12} {:>15} {:>12}"


async def compare(word: str) -> bool:
    """One row per kind as it is measured; True when all are within the limit."""
    print(ROW.format(*COLUMNS), flush=True)  # noqa: T201
    right = True
    for kind in EVERY_KIND:
        if word not in kind.name:
            continue
        folder = kind.folder()
        expected = kind.expected(folder)
        loaded = await load_forked(folder, **kind.settings)
        try:
            found = await measure(loaded, kind, expected)
        finally:
            await loaded.engine.stop()
        numbers = (found.alone, found.together, found.concurrent, found.repeated)
        cells = (f"{number:.1e}" for number in numbers)
        print(ROW.format(kind.name, loaded.engine.card.architecture, *cells), flush=True)  # noqa: T201
        right = right and found.largest <= WITHIN
    print(f"largest |d logit|, float32 on CPU; at most {WITHIN:.0e}: {'yes' if right else 'NO'}")  # noqa: T201
    return right


if __name__ == "__main__":  # the engine's processes import this module
    sys.exit(0 if asyncio.run(compare(sys.argv[1] if len(sys.argv) > 1 else "")) else 1)
