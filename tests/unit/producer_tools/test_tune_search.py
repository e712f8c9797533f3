"""The search for faster settings, on a made-up machine."""

from collections.abc import AsyncGenerator, Callable, Sequence

import pytest

from producer_tools.tune.ladder import ladder, starts
from producer_tools.tune.search import Candidate, Search, Tried


def search(rate: Callable[[Candidate], float | None], most: int = 100, kept: frozenset[str] = frozenset()) -> Search:
    async def measure(candidates: Sequence[Candidate]) -> AsyncGenerator[Tried, None]:
        for one in candidates:
            yield (found := Tried(one, rate(one), "out of memory"))
            if found.requests_per_second is None:
                return

    made = Search(measure, lambda: len(made.tried) < most, lambda _text: None, kept)
    return made


def gpu(candidate: Candidate) -> float | None:
    """As one H200 in a run with short texts: fp8 costs one engine and helps several; two without MPS take turns.

    Eight do not fit; async scheduling costs; larger steps help by less than noise.
    """
    if candidate.engines > 4:
        return None
    rate = {1: 3608.0, 2: 3551.0, 4: 6215.0}[candidate.engines]
    if candidate.settings.get("engine.args.quantization") == "fp8":
        rate *= 0.7 if candidate.engines == 1 else 1.2
    rate *= 1.1 if candidate.mps else 1
    rate *= 0.7 if candidate.settings.get("engine.args.async_scheduling") else 1
    return rate * (1.01 if candidate.settings.get("engine.max_num_seqs") == 512 else 1)


ONE_GPU = starts(1, 1000, {})


async def test_the_search_keeps_what_is_faster_and_leaves_what_is_not() -> None:
    found = await search(gpu).run(ONE_GPU, ladder(places=1, mps=True, fp8=True))
    assert found.candidate == Candidate(4, mps=True, settings=ONE_GPU[0].settings | {"engine.args.quantization": "fp8"})


async def test_fp8_is_never_tried_unless_it_is_allowed_nor_mps_where_there_is_none() -> None:
    looked = search(gpu)
    await looked.run(ONE_GPU, ladder(places=1, mps=False, fp8=False))
    assert not any(one.candidate.mps or "engine.args.quantization" in one.candidate.settings for one in looked.tried)


async def test_without_a_gpu_only_the_size_of_a_step_is_tried() -> None:
    looked = search(lambda candidate: 100.0 + candidate.settings.get("engine.max_num_seqs", 0))
    found = await looked.run(starts(0, 1000, {}), ladder(places=0, mps=False, fp8=True))
    assert found.candidate.settings == {"engine.max_num_seqs": 1024}
    assert {one.candidate.engines for one in looked.tried} == {1}


async def test_several_gpus_have_one_engine_each_at_least_and_mps_is_for_those_that_share_one() -> None:
    looked = search(lambda candidate: 100.0 - candidate.engines)
    found = await looked.run(starts(4, 1000, {}), ladder(places=4, mps=True, fp8=False))
    assert found.candidate.engines == 4
    assert {one.candidate.engines for one in looked.tried} == {4, 8, 16, 32}
    assert not any(one.candidate.mps for one in looked.tried)


async def test_of_what_is_given_no_other_value_is_tried() -> None:
    kept = frozenset({"engine.args.kv_cache_memory_bytes", "engine.max_num_seqs", "engine.args.quantization"})
    looked = search(gpu, kept=kept)
    await looked.run(starts(1, 1000, dict.fromkeys(kept, "5")), ladder(places=1, mps=True, fp8=True))
    assert looked.tried
    assert not any(kept & one.candidate.settings.keys() for one in looked.tried)


@pytest.mark.parametrize(("most", "engines"), [(1, 1), (3, 4), (4, 4)])
async def test_when_the_time_is_over_the_best_so_far_stands_and_the_rest_is_told(most: int, engines: int) -> None:
    looked = search(gpu, most=most)
    found = await looked.run(ONE_GPU, ladder(places=1, mps=True, fp8=False))
    assert len(looked.tried) == most
    assert found.candidate.engines == engines
    assert any("async_scheduling" in left for left in looked.left_out)
    assert len([left for left in looked.left_out if left.startswith("engines: ")]) == 4 - most
