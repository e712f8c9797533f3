"""The engine alone: vLLM's offline `LLM` on the token ids of given requests. The denominator of the pipeline's rate."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, TextIO

from vllm import LLM

from consumer.adapters.vllm_versions import engine_arguments, params_of
from consumer.errors import SettingsInvalid
from consumer.loading import load_model
from consumer.records import EngineInput, Prepared, Refusal, SourceRecord
from consumer.settings import Settings
from consumer.stages.prepare import Preparer
from consumer.tasks import tasks_for
from schemas.wire import RequestLimits


def measure_ceiling(settings: Settings, requests: Path, out: TextIO, warmup_requests: int = 64) -> None:
    """Score every request of a JSONL file in one offline call, and write the rate as one JSON object.

    Tokenising is not measured: the engine gets token ids, as from the pipeline. The first `warmup_requests` run once
    before. Raises SettingsInvalid for a model that is not recognised, or a request that cannot be scored.
    """
    model = load_model(settings.engine)
    tasks = tasks_for(model.card, model.encoder, settings.limits)
    limits = RequestLimits(settings.limits.max_items, settings.redis.max_ttl_seconds)
    preparer = Preparer(tasks, model.encoder, model.card.served_names, limits)
    lines = requests.read_bytes().splitlines()
    records = [SourceRecord(requests.name, 0, number, 0, None, line, ()) for number, line in enumerate(lines)]
    inputs: list[list[EngineInput]] = []
    for number, prepared in enumerate(preparer.prepare(records, now_unix_ms=0), start=1):
        if isinstance(prepared, Refusal):
            raise SettingsInvalid(f"{requests}, line {number}: {prepared.code.value}: {prepared.message}")
        if not isinstance(prepared, Prepared):
            raise SettingsInvalid(f"{requests}, line {number}: leave it out, IO processors are no part of the engine")
        inputs.append(prepared.inputs)

    # The offline class prepares tasks of its own at start, for which it wants a tokenizer; none of them runs here.
    llm = LLM(**engine_arguments(settings.engine, model.card) | {"skip_tokenizer_init": False})
    _score(llm, [one for sequences in inputs[:warmup_requests] for one in sequences])
    sequences = [one for group in inputs for one in group]
    seconds = _score(llm, sequences)
    tokens = sum(len(one.token_ids) for one in sequences)
    report = {
        "requests": len(inputs),
        "sequences": len(sequences),
        "tokens": tokens,
        "seconds": round(seconds, 3),
        "requests_per_second": round(len(inputs) / seconds, 2),
        "sequences_per_second": round(len(sequences) / seconds, 2),
        "tokens_per_second": round(tokens / seconds, 1),
    }
    out.write(json.dumps(report) + "\n")


def _score(llm: LLM, sequences: list[EngineInput]) -> float:
    """Seconds of one offline call."""
    prompts: list[Any] = [{"prompt_token_ids": one.token_ids} for one in sequences]
    params = [params_of(one) for one in sequences]
    begun = time.perf_counter()
    llm.encode(prompts, pooling_params=params, pooling_task=params[0].task, use_tqdm=False)
    return time.perf_counter() - begun
