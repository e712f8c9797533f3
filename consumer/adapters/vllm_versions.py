"""vLLM 0.26 to 0.33: everything that names vLLM's own classes and arguments, and what differs between releases.

Read in the sources of 0.26.0 and 0.32.0. What is used of AsyncLLM (`add_request` with a rendered `tokens_input`, its
collector's `get_nowait` and `get`, `abort`, `is_paused`, `errored`, `shutdown`) has one form in all of them, and so has
what is used beneath it: `output_handler`, `input_processor.process_inputs`, and of its `engine_core`
`add_request_async`, `abort_requests_async` and `get_output_async`; of the one for a single engine also `ensure_alive`,
`core_engine`, `client_index`, `encoder` and `input_socket`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

# Read when vLLM is imported. stdout is for data, not for logs; and vLLM reports usage to its makers unless told.
os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
# GiB. Else vLLM on CPU wants 92 % of the machine's memory free for a KV cache; pooling models need little or none.
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
# The engine is started from a process with threads, which must not be forked; and a forked engine would not load the
# plugin that ends it with the worker (vllm_children.py).
os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
# Seconds until vLLM ends a worker process of its engine that does not go by itself, as on CPU it never did. It has
# nothing left to do: the engine is stopped when nothing is in it.
os.environ.setdefault("VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS", "1")

import msgspec
import vllm
import vllm.exceptions
import zmq
from packaging.version import Version
from pydantic import ValidationError
from vllm.config import PoolerConfig, VllmConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.outputs import PoolingOutput, PoolingRequestOutput
from vllm.platforms import current_platform
from vllm.plugins.io_processors.interface import IOProcessor
from vllm.pooling_params import PoolingParams
from vllm.renderers.inputs.preprocess import prompt_to_seq
from vllm.transformers_utils.config import try_get_dense_modules
from vllm.usage.usage_lib import UsageContext
from vllm.utils.import_utils import resolve_obj_by_qualname
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError

from consumer.errors import SettingsInvalid
from consumer.io_processors import chosen_io_processors
from consumer.model.card import ModelCard
from consumer.records import CustomPooling, EngineInput, Pooling
from consumer.sections import EngineSettings

__all__ = [
    "REFUSALS",
    "REQUESTS_FAULTS",
    "VERSION",
    "AsyncLLM",
    "EngineDeadError",
    "IOProcessor",
    "PoolingOutput",
    "PoolingParams",
    "PoolingRequestOutput",
    "check_arguments",
    "copy_request",
    "device_type",
    "engine_arguments",
    "engine_config",
    "output_problem",
    "params_of",
    "pooling_params",
    "prompt_to_seq",
    "resolve_obj_by_qualname",
    "sender_of",
]

VERSION: str = vllm.__version__

REFUSALS: tuple[type[Exception], ...] = (
    ValueError,  # all refusals of 0.26
    getattr(vllm.exceptions, "VLLMClientError", ValueError),  # not a ValueError any more, since 0.29 or before
)
"""What `add_request` raises for a request's own fault."""

REQUESTS_FAULTS: tuple[type[Exception], ...] = tuple(
    getattr(vllm.exceptions, name)
    for name in ("VLLMValidationError", "VLLMClientError")  # the second since 0.29 or before
    if hasattr(vllm.exceptions, name)
)
"""With these any hook of an IO processor says that the request is at fault."""

SHUTDOWN_TIMEOUT_SECONDS = 30
"""On SIGTERM the engine's process finishes what it has for so long, instead of dropping it at once (vLLM's default)."""

_OWN = {
    "model": "engine.model",
    "tokenizer": "engine.model",
    "revision": "engine.revision",
    "dtype": "engine.dtype",
    "max_model_len": "engine.max_model_len",
    "max_num_seqs": "engine.max_num_seqs",
    "max_num_batched_tokens": "engine.max_num_batched_tokens",
    "enable_prefix_caching": "engine.prefix_caching",
    "max_num_queued_reqs": "engine.steps_in_flight",
    "max_num_queued_tokens": "engine.steps_in_flight",
    # With it vLLM's output handler asserts statistics, which are off, and dies of the first answer.
    "otlp_traces_endpoint": "OTEL_EXPORTER_OTLP_ENDPOINT in the environment",
}
"""Arguments of vLLM's that settings of ours stand for."""
_FIXED = (
    "runner",
    "skip_tokenizer_init",
    "enable_chunked_prefill",
    "disable_log_stats",
    "stream_interval",
)
"""Arguments without which the adapter would not be right."""


_POOLERS_WITH_LAYERS = ("BertForSequenceClassification", "ModernBertForSequenceClassification")
_POOLER_LAYERS_KEPT_SINCE = (0, 32)
"""Where raw numbers are asked for, older releases also leave out layers of the model's own between pooling and head:
BERT's tanh, ModernBERT's GELU and norm. Seen on 0.26.0 (logits of 83 that are 31), read in its source; kept in 0.32.0.
"""

_ASKED_OF_CONFIG: Mapping[str, dict[str, Any]] = {"XLMRobertaModel": {"position_embedding_type": "absolute"}}
"""What vLLM asks a config.json for and transformers 5 does not write; models of other positions are refused."""


def _check_layers(card: ModelCard) -> None:
    release = Version(vllm.__version__).release
    if card.architecture in _POOLERS_WITH_LAYERS and release < _POOLER_LAYERS_KEPT_SINCE:
        raise SettingsInvalid(
            f"engine.model: vLLM {vllm.__version__} computes wrong logits for {card.architecture}: "
            "install vLLM 0.32 or newer"
        )
    known = len(try_get_dense_modules(str(card.folder)) or ())
    if known != card.dense_modules:
        raise SettingsInvalid(
            f"engine.model: it has {card.dense_modules} Dense modules, vLLM {vllm.__version__} would apply {known}: "
            "install a newer vLLM"
        )


def check_arguments(arguments: Iterable[str]) -> None:
    """Raises SettingsInvalid for a name that `engine.args` cannot have."""
    known = {field.name for field in fields(AsyncEngineArgs)}
    for name in arguments:
        if name in _OWN:
            raise SettingsInvalid(f"engine.args.{name}: leave it out and set {_OWN[name]}")
        if name in _FIXED:
            raise SettingsInvalid(f"engine.args.{name}: leave it out, the worker depends on its own choice")
        if name not in known:
            meant = get_close_matches(name.replace("-", "_").lower(), known, n=1)
            fix = f"did you mean {meant[0]}?" if meant else "leave it out"
            raise SettingsInvalid(f"engine.args.{name}: vLLM {vllm.__version__} has no such argument: {fix}")


def engine_arguments(settings: EngineSettings, card: ModelCard) -> dict[str, Any]:
    """Arguments of vLLM's engine, by name. Raises SettingsInvalid for what `engine.args` cannot be."""
    _check_layers(card)
    check_arguments(settings.args)
    if settings.max_num_batched_tokens < card.usable_tokens:
        raise SettingsInvalid(
            f"engine.max_num_batched_tokens is {settings.max_num_batched_tokens}: set it to at least "
            f"{card.usable_tokens}, one sequence of this model, or engine.max_model_len to at most "
            f"{settings.max_num_batched_tokens}, because every sequence runs in one step"
        )
    chosen: dict[str, Any] = {
        "model": str(card.folder),
        "runner": "pooling",
        "dtype": settings.dtype,
        "max_model_len": card.usable_tokens,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        # Split prompts race in the pooling buffers (crash), and on 0.26 one of exactly max_model_len never ends.
        "enable_chunked_prefill": False,
        # Encoders see both sides of a token: a shared prefix has no shared state.
        "enable_prefix_caching": card.shares_prefixes and settings.prefix_caching,
        # We send token ids, and check them; a second tokenizer would only cost memory and start-up time. IO processors
        # may ask for it, or give texts.
        "skip_tokenizer_init": not chosen_io_processors(settings),
        "disable_log_stats": True,
        "shutdown_timeout": SHUTDOWN_TIMEOUT_SECONDS,
    }
    if pooler := _pooler(settings, card):
        chosen["pooler_config"] = pooler
    if overrides := _ASKED_OF_CONFIG.get(card.architecture, {}) | dict(card.engine_overrides):
        chosen["hf_overrides"] = dict(settings.args.get("hf_overrides", {})) | overrides
    return settings.args | chosen


def engine_config(settings: EngineSettings, card: ModelCard) -> VllmConfig:
    """The engine's configuration. Raises SettingsInvalid for what `engine.args` cannot be, and what vLLM refuses."""
    try:
        arguments = engine_arguments(settings, card)
        if pooler := arguments.get("pooler_config"):
            arguments["pooler_config"] = PoolerConfig(**pooler)
        config = AsyncEngineArgs(**arguments).create_engine_config(UsageContext.ENGINE_CONTEXT)
    except REFUSALS as refusal:
        raise SettingsInvalid(
            f"engine: vLLM {vllm.__version__} refuses {card.name} so configured: {_reason(refusal)}"
        ) from refusal
    _check_heads(config)
    return config


def device_type() -> str:
    """Of what vLLM computes on here, in its words; empty where it was built for a device that is not there."""
    return str(current_platform.device_type or "")


def _reason(refusal: Exception) -> str:
    """In a sentence: pydantic, which vLLM's configuration is made of, adds its whole input."""
    reason = str(refusal)
    if isinstance(refusal, ValidationError):
        reason = "; ".join(error["msg"].removeprefix("Value error, ") for error in refusal.errors())
    return f"{reason}: set engine.dtype to one of these" if "Supported dtypes" in reason else reason


def _check_heads(config: VllmConfig) -> None:
    """VLLM does not ask this on CPU, and its engine dies of the first sequence."""
    if device_type() != "cpu":
        return
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend  # noqa: PLC0415 -- only built for CPU

    size, supported = config.model_config.get_head_size(), CPUAttentionBackend.get_supported_head_sizes()
    if size not in supported:
        raise SettingsInvalid(
            f"engine.model: its attention has heads of {size} numbers, and vLLM {vllm.__version__} on CPU computes "
            f"those of {', '.join(map(str, supported))}: run it on a GPU"
        )


def _pooler(settings: EngineSettings, card: ModelCard) -> dict[str, Any]:
    pooler = dict(settings.args.get("pooler_config", {}))
    if card.pooling is not None:
        pooler.pop("pooling_type", None)
        pooler["seq_pooling_type"] = card.pooling
    return pooler


@lru_cache(maxsize=4096)
def pooling_params(pooling: Pooling, second_segment_start: int | None) -> PoolingParams:
    """Raw numbers, without activation or normalisation. May be shared: the engine works on a copy.

    vLLM carries token_type_ids as the index at which they turn from 0 to 1; left out, they are all 0 and a BERT
    cross-encoder scores something else.
    """
    segments = None if second_segment_start is None else {"compressed_token_type_ids": second_segment_start}
    return PoolingParams(task=pooling.value, use_activation=False, extra_kwargs=segments)


def params_of(one: EngineInput) -> PoolingParams:
    """What the engine is to compute of one sequence."""
    if isinstance(one.pooling, CustomPooling):
        params: PoolingParams = one.pooling.params
        return params
    return pooling_params(one.pooling, one.second_segment_start)


def copy_request(processed: Any, request_id: str, token_ids: list[int], arrival_time: float) -> Any:
    """Another of vLLM's EngineCoreRequests like one that vLLM has processed, whatever fields this release gives it.

    `arrival_time`: Unix seconds.
    """
    return msgspec.structs.replace(
        processed, request_id=request_id, prompt_token_ids=token_ids, arrival_time=arrival_time
    )


def sender_of(core: Any) -> Callable[[Any], Awaitable[None]]:
    """How a request that vLLM has processed is sent to the engine; `core` is AsyncLLM's `engine_core`.

    As `add_request_async` does it, save that it awaits nothing. vLLM gives each request a future of zmq's, although the
    socket is without a limit and takes everything at once: 8 us in place of 2. Among several engines vLLM chooses.
    Raises AttributeError or ImportError where a release lacks what is needed; what is returned, EngineDeadError.
    """
    # Here, where a release that has moved them costs the faster client and not the start.
    from vllm.v1.engine import EngineCoreRequestType  # noqa: PLC0415
    from vllm.v1.engine.core_client import AsyncMPClient  # noqa: PLC0415

    if type(core).add_request_async is not AsyncMPClient.add_request_async:
        sender: Callable[[Any], Awaitable[None]] = core.add_request_async
        return sender
    socket: zmq.Socket[bytes] = zmq.Socket.shadow(core.input_socket.underlying)
    head: list[bytes] = [core.core_engine, EngineCoreRequestType.ADD.value]
    ensure_alive, encoder, client_index = core.ensure_alive, core.encoder, core.client_index
    more, at_once = zmq.SNDMORE | zmq.DONTWAIT, zmq.DONTWAIT

    async def send(request: Any) -> None:
        ensure_alive()
        request.client_index = client_index
        *frames, last = head + encoder.encode(request)
        for frame in frames:
            socket.send(frame, more)
        socket.send(last, at_once)

    return send


def output_problem(output: Any) -> str | None:
    """Why a finished output holds no numbers. An aborted request finishes with an empty tensor and no error."""
    if error := getattr(output, "error", None):  # since 0.27 or later
        return str(getattr(error, "message", error))
    return None if output.outputs.data.numel() else "the engine gave no numbers"


def default_gpu_memory_share() -> float:
    """The part of a GPU's memory that an engine takes where gpu_memory_utilization is not set; releases differ."""
    return float(AsyncEngineArgs.gpu_memory_utilization)
