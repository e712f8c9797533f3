"""One of vLLM's IO processors, unchanged: its hooks in the order in which vLLM's own server calls them.

parse_data, pre_process, merge_pooling_params; the engine; post_process. Where a processor has asynchronous hooks of its
own, those are used; vLLM itself never calls them. Up to vLLM 0.26 parse_data may be called parse_request,
merge_pooling_params may be validate_or_generate_params, and output_to_response may follow post_process.

What becomes of a request that ends in between: see vllm_attempt.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, get_args
from uuid import uuid4

import numpy as np
import structlog
import torch
from pydantic import ValidationError
from pydantic_core import to_jsonable_python
from pydantic_core.core_schema import ErrorType

from consumer.adapters.vllm_attempt import PluginAttempt, given_up_on_failure, take_out
from consumer.adapters.vllm_versions import (
    REQUESTS_FAULTS,
    IOProcessor,
    PoolingOutput,
    PoolingParams,
    PoolingRequestOutput,
    prompt_to_seq,
)
from consumer.errors import RecordRejected
from consumer.hooks import Hooks
from consumer.records import CustomPooling, EngineInput
from schemas.errors import ErrorCode
from schemas.wire.strict_json import MAX_DEPTH, find_fault

_TOLD = frozenset(get_args(ErrorType)) - {"value_error", "assertion_error", "union_tag_invalid"}
"""Types of pydantic's errors whose text is pydantic's own and quotes nothing of the request."""
_VIOLATIONS_TOLD, _PATH_CHARACTERS = 3, 100
_PROMPTS = "a text, a list of token ids, or a dictionary with `prompt` or `prompt_token_ids`"
_OTHER_PROMPTS = {"multi_modal_data", "prompt_embeds", "encoder_prompt", "token_type_ids", "cache_salt"}
"""What else vLLM knows in a prompt, for messages."""
_ANSWER_LEVEL = 4
"""Of nesting: an answer stands in an element of a list of the result."""
_rendering = Lock()
"""The tokenizer is shared by all processors, and one thread may use it at a time."""

log = structlog.get_logger()


class VllmProcessor:
    """A Processor on one instance of a plugin's class. Built and used on one event loop."""

    def __init__(self, plugin: Any, renderer: Any, hooks: Hooks, usable_tokens: int, max_prompts: int) -> None:
        self._plugin = plugin
        self._renderer = renderer
        self._hooks = hooks
        self._usable_tokens = usable_tokens
        self._max_prompts = max_prompts
        self._parse_data = former_hook(plugin, "parse_data", "parse_request")
        self._merge_pooling_params = former_hook(plugin, "merge_pooling_params", "validate_or_generate_params")
        self._loop = asyncio.get_running_loop()
        self._discarding: set[asyncio.Task[None]] = set()

    async def begin(self, data: Any) -> PluginAttempt:
        """What the processor makes of a request's `data`.

        Raises RecordRejected for data that it refuses or that the engine would not take, HookOverran, or whatever else
        the processor raised.
        """
        attempt = PluginAttempt(uuid4().hex, self._abandon)
        with given_up_on_failure(attempt):
            if overrides(self._plugin, "pre_process_async"):
                await self._hooks.run(partial(self._prepare_async, attempt, data))
            else:
                await self._hooks.call(partial(self._prepare, attempt, data))
        return attempt

    async def finish(self, attempt: PluginAttempt, outputs: Sequence[np.ndarray]) -> Any:
        """The answer as JSON values, from one output per input of the attempt. Raises as `begin` does."""
        with given_up_on_failure(attempt):
            if overrides(self._plugin, "post_process_async"):
                answer = await self._hooks.run(partial(self._answer_async, attempt, outputs))
            else:
                answer = await self._hooks.call(partial(self._answer, attempt, outputs))
        attempt.answered()
        return answer

    # --------------------------------------------------------------------------------------- in the hooks' thread

    def _prepare(self, attempt: PluginAttempt, data: Any) -> None:
        parsed = self._parse(data)
        with _refusals_of(REQUESTS_FAULTS):
            prompts = self._plugin.pre_process(prompt=parsed, request_id=attempt.request_id)
        attempt.inputs = self._inputs(prompts)

    async def _prepare_async(self, attempt: PluginAttempt, data: Any) -> None:
        parsed = self._parse(data)
        with _refusals_of(REQUESTS_FAULTS):
            prompts = await self._plugin.pre_process_async(prompt=parsed, request_id=attempt.request_id)
        attempt.inputs = self._inputs(prompts)

    def _parse(self, data: Any) -> Any:
        with _refusals_of((ValueError, TypeError, *REQUESTS_FAULTS)):
            return self._parse_data(data)

    def _inputs(self, prompts: Any) -> list[EngineInput]:
        # Before anything can fail: a processor may keep the parameters in a queue, the next request's behind them.
        params = self._params()
        each = list(prompt_to_seq(prompts))
        if not each:
            raise RecordRejected(ErrorCode.EMPTY_INPUT, "the IO processor made no prompt of `data`")
        if len(each) > self._max_prompts:
            made = f"the IO processor made {len(each)} prompts of `data`"
            raise RecordRejected(ErrorCode.TOO_MANY_ITEMS, f"{made}, {self._max_prompts} are allowed")
        return [EngineInput(self._token_ids(prompt), params) for prompt in each]

    def _params(self) -> CustomPooling:
        with _refusals_of(REQUESTS_FAULTS):
            params = self._merge_pooling_params()
        if not isinstance(params, PoolingParams):
            raise TypeError("merge_pooling_params must return PoolingParams")
        if params.late_interaction_params is not None:
            raise ValueError("late_interaction_params can end the engine: ask for token_embed, and compare afterwards")
        params = params.clone()
        params.task = params.task or "plugin"
        return CustomPooling(params)

    def _token_ids(self, prompt: Any) -> list[int]:
        match prompt:
            case str():
                given: dict[str, Any] = {"prompt": prompt}
            case list():
                given = {"prompt_token_ids": prompt}
            case dict():
                given = {name: part for name, part in prompt.items() if part is not None}
            case _:
                given = {}
        match given:
            case {"prompt_token_ids": list(ids)} if given.keys() <= {"prompt_token_ids", "prompt"}:
                pass
            case {"prompt": str(text)} if len(given) == 1:
                ids = self._tokenised(text)
            case _:
                other = sorted(given.keys() & _OTHER_PROMPTS)
                has = f"one with {', '.join(other)}" if other else f"a {type(prompt).__name__}"
                made = f"the IO processor made a prompt that is not supported, {has}"
                raise RecordRejected(ErrorCode.SCHEMA, f"{made}; supported is {_PROMPTS}")
        if len(ids) > self._usable_tokens:
            made = f"the IO processor made a prompt of {len(ids)} tokens"
            raise RecordRejected(ErrorCode.TOO_LONG, f"{made}; the model takes {self._usable_tokens}")
        return list(ids)

    def _tokenised(self, text: str) -> list[int]:
        """As vLLM does it: with special tokens, and control tokens in the text are control tokens."""
        with _rendering:
            # Without a limit: vLLM's own refusal would not tell how long it is.
            params = replace(self._renderer.default_cmpl_tok_params, max_total_tokens=None)
            (rendered,) = self._renderer.render_cmpl([{"prompt": text}], params)
        ids: list[int] = rendered["prompt_token_ids"]
        return ids

    def _answer(self, attempt: PluginAttempt, outputs: Sequence[np.ndarray]) -> Any:
        with _refusals_of(REQUESTS_FAULTS):
            answer = self._plugin.post_process(_vllm_outputs(attempt, outputs), request_id=attempt.request_id)
        return self._as_json(answer, attempt)

    async def _answer_async(self, attempt: PluginAttempt, outputs: Sequence[np.ndarray]) -> Any:
        numbered = _numbered(_vllm_outputs(attempt, outputs))
        with _refusals_of(REQUESTS_FAULTS):
            answer = await self._plugin.post_process_async(numbered, request_id=attempt.request_id)
        return self._as_json(answer, attempt)

    def _as_json(self, answer: Any, attempt: PluginAttempt) -> Any:
        if to_response := getattr(self._plugin, "output_to_response", None):
            if getattr(answer, "request_id", attempt) is None:
                answer.request_id = attempt.request_id
            answer = to_response(answer).data
        plain = to_jsonable_python(answer, fallback=_plain)
        if fault := find_fault(plain, MAX_DEPTH, level=_ANSWER_LEVEL):
            raise RecordRejected(ErrorCode.INTERNAL, f"the IO processor's answer {fault}")
        return plain

    # -------------------------------------------------------------------------------------------------- abandoned

    def _abandon(self, request_id: str) -> None:
        """From any thread, wherever the attempt was dropped."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._discard_soon, request_id)

    def _discard_soon(self, request_id: str) -> None:
        discarding = self._loop.create_task(self._discard(request_id))
        self._discarding.add(discarding)
        discarding.add_done_callback(self._discarding.discard)

    async def _discard(self, request_id: str) -> None:
        try:
            await self._hooks.call(partial(take_out, self._plugin, request_id))
        except Exception as fault:  # noqa: BLE001 -- nobody waits for it
            log.error("an IO processor may keep an abandoned request", type=type(fault).__name__)  # noqa: TRY400


def overrides(plugin: Any, name: str) -> bool:
    """Whether the plugin's class has a hook of its own."""
    return getattr(type(plugin), name, None) is not getattr(IOProcessor, name)


def former_hook(plugin: Any, name: str, former: str) -> Any:
    """The hook, or under its former name if the plugin has only that."""
    return getattr(plugin, name if overrides(plugin, name) or not hasattr(plugin, former) else former)


@contextmanager
def _refusals_of(types: tuple[type[Exception], ...]) -> Iterator[None]:
    """What a hook says against the request, without its text, which may quote the request."""
    try:
        yield
    except ValidationError as invalid:
        if not issubclass(ValidationError, types):
            raise
        message = f"the IO processor refuses `data`: {_violations(invalid)}"
        raise RecordRejected(ErrorCode.SCHEMA, message) from invalid
    except types as refusal:
        raise RecordRejected(
            ErrorCode.SCHEMA, f"the IO processor refuses `data`: {type(refusal).__name__}"
        ) from refusal


def _violations(invalid: ValidationError) -> str:
    errors = invalid.errors(include_url=False, include_input=False, include_context=False)
    told = []
    for error in errors[:_VIOLATIONS_TOLD]:
        path = ".".join(map(str, ("data", *error["loc"])))[:_PATH_CHARACTERS]
        told.append(f"`{path}`: {error['msg'] if error['type'] in _TOLD else 'not valid'}")
    return "; ".join(told) + ("; and more" if len(errors) > len(told) else "")


def _vllm_outputs(attempt: PluginAttempt, outputs: Sequence[np.ndarray]) -> list[PoolingRequestOutput[PoolingOutput]]:
    """As the engine gave them; processors may change them."""
    return [
        PoolingRequestOutput(
            request_id=f"{attempt.request_id}-{number}",
            outputs=PoolingOutput(data=torch.tensor(numbers)),
            prompt_token_ids=list(one.token_ids),
            num_cached_tokens=0,
            finished=True,
        )
        for number, (one, numbers) in enumerate(zip(attempt.inputs, outputs, strict=True))
    ]


async def _numbered(
    outputs: Sequence[PoolingRequestOutput[PoolingOutput]],
) -> AsyncGenerator[tuple[int, PoolingRequestOutput[PoolingOutput]], None]:
    for one in enumerate(outputs):
        yield one


def _plain(value: Any) -> Any:
    """Of an array or a tensor; what else is not JSON is the processor's fault."""
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        return value.tolist()
    raise TypeError(f"an answer holds a {type(value).__name__}, which is not JSON")
