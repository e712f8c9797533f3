"""What is tried, in the order of what it usually gains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from producer_tools.tune.search import Candidate, Step

ENGINES_PER_GPU = (1, 2, 4, 8)
MOST_ENGINES = 64
"""As many as `workers.count` may be."""
MAX_NUM_SEQS = (512, 1024, 128)
MAX_NUM_BATCHED_TOKENS = (8192, 32_768)
KV_CACHE_BYTES = 4 << 30
"""Of one engine on a GPU. Given, so that engines may start together; a pooling model needs one step's worth."""


def starts(places: int, requests: int, given: Mapping[str, Any]) -> list[Candidate]:
    """One engine without a GPU, else several numbers of them, each with a KV cache of a given size; else defaults.

    `places`: GPUs, or groups of them, that hold an engine. `requests`: of one measurement; no engine is without any.
    All the numbers, also after one that is no faster: two engines that take turns on a GPU may be little faster than
    one, and four much.
    """
    one = Candidate(mps=given.get("workers.mps") == "on")
    if places and "engine.args.kv_cache_memory_bytes" not in given:
        one = one.with_settings(args__kv_cache_memory_bytes=KV_CACHE_BYTES)
    if "workers.count" in given:
        return [replace(one, engines=int(given["workers.count"]))]
    counts = {min(places * number, requests, MOST_ENGINES) for number in ENGINES_PER_GPU} if places else {1}
    return [replace(one, engines=count) for count in sorted(counts)]


def ladder(*, places: int, mps: bool, fp8: bool) -> list[Step]:
    """The steps after those. `mps`: it may be chosen. `fp8`: scores may change a little."""
    steps = []
    if places:
        if fp8:
            steps.append(Step("fp8", lambda best: [best.with_settings(args__quantization="fp8")]))
        if mps:
            steps.append(Step("MPS", lambda best: [replace(best, mps=True)] if best.engines > places else []))
        # vLLM turns it off for pooling models by itself.
        steps.append(Step("async_scheduling", lambda best: [best.with_settings(args__async_scheduling=True)]))
    steps.append(
        Step("max_num_seqs", lambda best: [best.with_settings(max_num_seqs=number) for number in MAX_NUM_SEQS])
    )
    steps.append(
        Step(
            "max_num_batched_tokens",
            lambda best: [best.with_settings(max_num_batched_tokens=number) for number in MAX_NUM_BATCHED_TOKENS],
        )
    )
    return steps
