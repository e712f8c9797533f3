"""At start: has the engine all its weights, does it score, and do both of vLLM's clients give the same numbers?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import structlog

from consumer.adapters.vllm_engine import VllmEngine
from consumer.adapters.vllm_versions import EngineDeadError
from consumer.errors import EngineDead, MicroBatchFailed, SettingsInvalid
from consumer.model.card import ModelCard, ModelKind
from consumer.records import EngineInput, EngineOutput, InputRejected, Pooling
from consumer.sections import EngineClient, EngineSettings

_COMPUTES = {
    ModelKind.EMBEDDING: Pooling.EMBED,
    ModelKind.LATE_INTERACTION: Pooling.TOKEN_EMBED,
    ModelKind.TOKEN_CLASSIFIER: Pooling.TOKEN_CLASSIFY,
    ModelKind.CROSS_ENCODER: Pooling.CLASSIFY,
    ModelKind.CLASSIFIER: Pooling.CLASSIFY,
    ModelKind.DECODER_RERANKER: Pooling.CLASSIFY,
}
_NAMED = 3
"""Parameters that a message names."""
_LENGTHS_TOKENS = (3, 8, 17, 50, 130)
_TOLERANCES = {"float32": 1e-3}
_HALF_PRECISION_TOLERANCE = 0.05
"""Of the length of all numbers together. In half precision a sequence's numbers depend on what it is computed with."""

log = structlog.get_logger()


class DiedOfComparison(EngineDead):
    """It had scored by vLLM's public client, and died of the other."""


async def check_loaded(engine: VllmEngine) -> None:
    """Raises SettingsInvalid where vLLM has found no weights for a part of the model, and would compute with junk."""
    try:
        left = await engine.weights_left_unset()
    except EngineDeadError as death:
        raise EngineDead(f"the engine has died: {death}") from death
    except Exception as unanswered:  # noqa: BLE001 -- whatever vLLM says; what is known of the files has been checked
        log.warning("what vLLM loaded could not be held against what the model has", reason=str(unanswered))
        return
    if left:
        others = f", and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        raise SettingsInvalid(
            f"engine.model is {engine.card.name}: its weight files leave {', '.join(left[:_NAMED])}{others} of vLLM's "
            "model without a value, or with one that is no number, and scores would be random: download or save the "
            "model again"
        )


async def score_known(engine: VllmEngine, settings: EngineSettings) -> list[EngineOutput]:
    """What the engine gives for the known inputs by vLLM's public client; empty for a model without known inputs.

    Raises EngineDead when it does not live through that: it would not through the first request.
    """
    inputs = known_inputs(engine.card)
    try:
        async with asyncio.timeout(settings.start_timeout_seconds):
            return await engine.submit(inputs)
    except TimeoutError as silent:
        raise EngineDead(
            f"the engine did not score in {settings.start_timeout_seconds:g} s when it was tried"
        ) from silent
    except (EngineDead, MicroBatchFailed) as broken:
        raise EngineDead(
            f"the engine came up, and failed when it was tried with {len(inputs)} sequences of token ids, before any "
            f"request; vLLM's own reason stands above in the log: {broken}"
        ) from broken


async def choose_client(engine: VllmEngine, settings: EngineSettings, expected: Sequence[EngineOutput]) -> None:
    """Let requests enter by the client that `engine.client` asks for. Leaves the public one where the other fails.

    `expected`: of `score_known`. Raises SettingsInvalid where that one was asked for by name, DiedOfComparison when the
    engine does not come out of it.
    """
    if settings.client is EngineClient.ASYNC_LLM:
        return
    try:
        problem = await _problem(engine, settings.hang_seconds, expected)
    except EngineDead as death:
        raise DiedOfComparison(str(death)) from death
    if problem and settings.client is EngineClient.ENGINE_CORE:
        raise SettingsInvalid(f"engine.client is engine_core, and {problem}: set it to auto")
    if problem:
        log.warning("requests enter by vLLM's public client, at twice the CPU", reason=problem)


async def _problem(engine: VllmEngine, timeout_seconds: float, expected: Sequence[EngineOutput]) -> str | None:
    """Why the client beneath AsyncLLM cannot be used; None when it is now in use."""
    if not (inputs := known_inputs(engine.card)):
        return "no input of this model is known to compare them with"
    try:
        async with asyncio.timeout(timeout_seconds):
            await engine.use(EngineClient.ENGINE_CORE)
            found = await engine.submit(inputs)
        problem = difference(expected, found, engine.card.dtype)
    except TimeoutError:
        problem = f"it did not score within {timeout_seconds:g} s"
    except EngineDead:
        raise
    except Exception as broken:  # noqa: BLE001 -- whatever another release of vLLM does differently, and it is told
        problem = f"it failed: {type(broken).__name__}: {broken}"
    if problem:
        await engine.use(EngineClient.ASYNC_LLM)
        await engine.ping(timeout_seconds)
    return problem


def known_inputs(card: ModelCard) -> list[EngineInput]:
    """Sequences of several lengths, with and without a second segment; none for a model that only a plugin knows.

    Only pairs have a second segment. A BERT embedder's tokenizer makes token_type_ids, too, and its engine dies of a
    request with some.
    """
    pooling = _COMPUTES.get(card.kind)
    if pooling is None:
        return []
    lengths = [length for length in _LENGTHS_TOKENS if length <= card.usable_tokens]
    sequences = [[(7919 * (length + place)) % card.vocabulary_size for place in range(length)] for length in lengths]
    pairs = card.kind is ModelKind.CROSS_ENCODER and card.has_segments
    starts = [None, *([2] if pairs else [])]
    return [EngineInput(ids, pooling, start) for ids in sequences for start in starts]


def difference(expected: Sequence[EngineOutput], found: Sequence[EngineOutput], dtype: str) -> str | None:
    """What speaks against taking both for the same numbers, None when nothing does."""
    refused = [one for one in (*expected, *found) if isinstance(one, InputRejected)]
    if refused:
        return f"a sequence of the comparison was refused: {refused[0].message}"
    arrays, others = ([one for one in each if isinstance(one, np.ndarray)] for each in (expected, found))
    if [one.shape for one in arrays] != [one.shape for one in others]:
        return "its numbers have another shape"
    numbers = np.concatenate([one.ravel() for one in arrays])
    distance = np.linalg.norm(np.concatenate([one.ravel() for one in others]) - numbers)
    error = float(distance / np.linalg.norm(numbers))
    tolerance = _TOLERANCES.get(dtype, _HALF_PRECISION_TOLERANCE)
    return None if error <= tolerance else f"its numbers differ by {error:.2g}, {dtype} explains {tolerance:g}"
