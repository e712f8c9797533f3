"""Throw made-up payloads at the pure path of every kind of model: python -m tests.fuzz --count 1000000 [--seed N].

Exits with 1 at the first payload for which an exception escapes, an answer is not bounded, token ids are not the
tokenizer's own, or something of the payload stands in an error or in the log; it is printed with what broke.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from random import Random

import numpy as np

from consumer.records import SourceRecord
from tests.fuzz.path import CARDS, Broke, OnePath, listen
from tests.fuzz.payloads import MARKER, headers, payload

BATCH = 64
TIMESTAMPS = (10**12, 10**12, 10**12, 1_764_435_600_000, 1_764_435_600, 0, -1, 2**62)


def fuzz(count: int, seed: int) -> dict[str, int]:
    """So many payloads, spread over the kinds of model. Returns how often each ending came. Raises Broke."""
    random, lines = Random(seed), listen()
    paths = [OnePath(kind, np.random.default_rng(seed)) for kind in CARDS]
    for number, start in enumerate(range(0, count, BATCH)):
        path = paths[number % len(paths)]
        values = [payload(random, path.tasks) for _ in range(min(BATCH, count - start))]
        records = [
            SourceRecord(
                "fuzz",
                0,
                start + at,
                random.choice(TIMESTAMPS),
                random.choice((None, b"\xff", b"k")),
                value,
                headers(random),
            )
            for at, value in enumerate(values)
        ]
        path.run(records)
        if any(MARKER in line for line in lines):
            raise Broke(f"the log repeats a request: {lines}")
        lines.clear()
    return dict(sum((Counter(path.codes) for path in paths), Counter()))


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz")
    arguments.add_argument("--count", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--processes", type=int, default=1)
    chosen = arguments.parse_args()
    started = time.monotonic()
    share = -(-chosen.count // chosen.processes)
    with ProcessPoolExecutor(chosen.processes) as pool:
        parts = [pool.submit(fuzz, share, chosen.seed + at) for at in range(chosen.processes)]
        try:
            codes = sum((Counter(part.result()) for part in parts), Counter())
        except Broke as broke:
            print(broke, file=sys.stderr)  # noqa: T201
            return 1
    report = {"payloads": sum(codes.values()), "seconds": round(time.monotonic() - started), "endings": codes}
    print(json.dumps(report))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
