"""What `engine.args` may change about a model's numbers, for its fingerprint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_MEMORY = (
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "num_gpu_blocks_override",
    "cpu_offload_gb",
    "enable_sleep_mode",
    "enable_cumem_allocator",
    "mm_processor_cache_gb",
    "mm_processor_cache_type",
    "mm_shm_cache_max_object_size_mb",
)
_ORDER_OF_WORK = (
    "async_scheduling",
    "scheduling_policy",
    "shutdown_timeout",
    "max_num_active_seqs",
    "data_parallel_size",
    "data_parallel_size_local",
    "data_parallel_backend",
    "renderer_num_workers",
    "distributed_timeout_seconds",
    "cpu_distributed_timeout_seconds",
    "numa_bind",
    "numa_bind_nodes",
    "numa_bind_cpus",
    "device_ids",
)
_LOADING = (
    "download_dir",
    "hf_token",
    "max_parallel_loading_workers",
    "safetensors_load_strategy",
    "safetensors_prefetch_num_threads",
    "safetensors_prefetch_block_size",
    "use_tqdm_on_load",
)
_NAMES_AND_LOGS = (
    "served_model_name",
    "enable_log_requests",
    "aggregate_engine_logging",
    "log_level",
    "log_config_file",
    "logging_config",
    "show_hidden_metrics_for_version",
    "collect_detailed_traces",
    "kv_cache_metrics",
    "cudagraph_metrics",
    "enable_mfu_metrics",
    "enable_logging_iteration_details",
    "enable_layerwise_nvtx_tracing",
    "profiler_config",
    "watchdog_config",
    "io_processor_plugin",
)
SAME_NUMBERS = frozenset((*_MEMORY, *_ORDER_OF_WORK, *_LOADING, *_NAMES_AND_LOGS))
"""Arguments of vLLM's engine that leave the numbers of a sequence as they are. Any other, and one that a later vLLM
brings, counts as if it changed them."""


def changes(args: Mapping[str, Any]) -> str:
    """Of `engine.args`, all but those, as JSON."""
    counted = {name: value for name, value in args.items() if name not in SAME_NUMBERS}
    return json.dumps(counted, sort_keys=True, default=str)
