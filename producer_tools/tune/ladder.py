"""What is tried, in the order of what it usually gains."""

from __future__ import annotations

from dataclasses import replace

from producer_tools.tune.search import Candidate, Step

ENGINES_PER_GPU = (1, 2, 4, 8)
MAX_NUM_SEQS = (512, 1024, 128)
MAX_NUM_BATCHED_TOKENS = (8192, 32_768)
KV_CACHE_BYTES = 4 << 30
"""Of one engine on a GPU. Given, so that engines may start together; a pooling model needs one step's worth."""


def starts_on(gpus: int, kept: frozenset[str]) -> list[Candidate]:
    """With the defaults: one engine without a GPU, else several numbers of them, each with a KV cache of a given size.

    `kept`: paths of settings that are given.

    All the numbers, also after one that is no faster: two engines that take turns on a GPU may be as fast as one, and
    four faster.
    """
    if not gpus:
        return [Candidate()]
    one = Candidate().with_settings(args__kv_cache_memory_bytes=KV_CACHE_BYTES)
    if kept & one.settings.keys():
        one = Candidate()
    return [replace(one, engines=gpus * number) for number in ENGINES_PER_GPU]


def ladder(*, gpus: int, mps: bool, fp8: bool) -> list[Step]:
    """The steps on a machine with so many GPUs. `mps`: it has the daemon. `fp8`: scores may change a little."""
    steps = []
    if gpus:
        if fp8:
            steps.append(Step("fp8", lambda best: [best.with_settings(args__quantization="fp8")]))
        if mps:
            steps.append(Step("MPS", lambda best: [replace(best, mps=True)] if best.engines > gpus else []))
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
