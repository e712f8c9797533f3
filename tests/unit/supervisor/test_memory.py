"""Whether the memory of the GPUs is enough for the workers on them."""

import pytest

from consumer.errors import SettingsInvalid
from consumer.metrics.sampler import GpuReading
from consumer.settings import load_settings
from consumer.supervisor.memory import check_gpu_memory

GIB = 2**30
VLLM = {"engine.model": "some/model"}


def gpu(number: int | str, used_gib: int = 1) -> GpuReading:
    return GpuReading(str(number), 0.0, used_gib * GIB, 100 * GIB)


def test_an_idle_gpu_is_enough_for_one_worker_and_for_four_that_share_it() -> None:
    [alone] = check_gpu_memory(load_settings(VLLM), [gpu(0)], 0.92)
    assert alone.ok
    assert "1 worker with gpu_memory_utilization 0.92 take 92.0" in alone.found
    [shared] = check_gpu_memory(load_settings(VLLM | {"workers.count": 4}), [gpu(0)], 0.92)
    assert shared.ok
    assert "4 workers with gpu_memory_utilization 0.2 take 80.0" in shared.found


def test_what_another_process_holds_and_shares_that_exceed_the_gpu_are_refused_with_what_would_fit() -> None:
    [held] = check_gpu_memory(load_settings(VLLM), [gpu(0, used_gib=40)], 0.92)
    assert not held.ok
    assert "to at most 0.6" in held.fix
    greedy = VLLM | {"workers.count": 3, "engine.args.gpu_memory_utilization": 0.5}
    first, second = check_gpu_memory(load_settings(greedy), [gpu(0), gpu(1)], 0.92)
    assert (first.ok, second.ok) == (False, True)
    assert "to at most 0.49, or workers.count to fewer" in first.fix


def test_only_gpus_that_workers_are_given_count_and_an_engine_needs_as_many_as_it_asks_for() -> None:
    assert [one.found[:5] for one in check_gpu_memory(load_settings(VLLM), [gpu(0), gpu(1, 99)], 0.92)] == ["GPU 0"]
    spread = load_settings(VLLM | {"engine.args.tensor_parallel_size": 2})
    assert len(check_gpu_memory(spread, [gpu(0), gpu(1)], 0.92)) == 2
    with pytest.raises(SettingsInvalid, match="asks for 2 GPUs"):
        check_gpu_memory(spread, [gpu(0)], 0.92)


def test_a_fixed_cache_does_not_lower_what_must_be_free_and_slices_count_apart() -> None:
    fixed = VLLM | {"workers.count": 2, "engine.args.kv_cache_memory_bytes": GIB}
    [shared] = check_gpu_memory(load_settings(fixed), [gpu("0:1", used_gib=30)], 0.92)
    assert not shared.ok
    assert "GPU 0:1 has 100.0 GiB, 70.0 free; 2 workers with gpu_memory_utilization 0.4 take 80.0" in shared.found


def test_what_the_workers_that_run_here_hold_is_no_reason_to_end_anything() -> None:
    [held] = check_gpu_memory(load_settings(VLLM), [gpu(0, used_gib=93)], 0.92, "the worker on port 8080")
    assert held.ok
    assert "7.0 free" in held.found
    assert "the worker on port 8080 holds its share already" in held.found
