"""The commands behind the bench's denominators, on a real model: its tokenizer, vLLM offline, transformers."""

import asyncio
import json
import os
import sys
from pathlib import Path

from producer_tools.bench.engines import set_arguments
from producer_tools.bench.mixes import NAMED, Tokenisation

FEW_PROCESSES = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
"""vLLM's engine in the process that measures it: on CPU there would be two more, that import it one by one."""
REQUESTS = 12


async def told(minilm: Path, *arguments: str) -> list[dict]:
    settings = set_arguments({"engine.model": str(minilm), "engine.dtype": "float32"})
    settings += set_arguments({"engine.args.enforce_eager": True})
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "consumer.entry", *arguments, *settings],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | FEW_PROCESSES | {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"},
    )
    async with asyncio.timeout(600):
        stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()[-3000:]
    return [json.loads(line) for line in stdout.splitlines() if line.startswith(b"{")]


async def test_engines_and_transformers_score_the_requests_and_the_tokens_that_the_tokenizer_counts(
    minilm_cross_encoder: Path, tmp_path: Path
) -> None:
    files = [tmp_path / f"{mix}.jsonl" for mix in ("short", "mid")]
    for file in files:
        # [CLS], two [SEP], and a token per word.
        requests = NAMED[file.stem].requests(REQUESTS, seed=1, id_prefix="x", tokenisation=Tokenisation(3, 1))
        file.write_bytes(b"".join(value + b"\n" for _, value in requests))
    names = [str(file) for file in files]
    commands = ("tokens", "ceiling", "baseline")
    counts, *measured = await asyncio.gather(*(told(minilm_cross_encoder, command, *names) for command in commands))
    short = [one["tokens"] for one in counts if one["file"] == "short.jsonl"]
    assert len(short) == REQUESTS
    assert 32 <= min(short) <= max(short) <= 96
    tokens = [sum(one["tokens"] for one in counts if one["file"] == file.name) for file in files]
    for reports in measured:
        assert [(one["requests"], one["sequences"]) for one in reports] == [(REQUESTS, REQUESTS)] * 2
        assert [one["tokens"] for one in reports] == tokens
        assert all(one["dtype"] == "float32" and one["requests_per_second"] > 0 for one in reports)
