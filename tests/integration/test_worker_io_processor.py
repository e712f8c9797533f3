"""The example of a model and an IO processor of one's own, installed as a user does it, in a worker with real vLLM."""

import json
import re
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from aiokafka import AIOKafkaProducer
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from scripts.uv import find_uv
from tests.conftest import CreateTopics
from tests.integration.test_worker_scripted import worker_settings
from tests.services.kafka import KafkaNode
from tests.services.reading import read_topic
from tests.services.redis import RedisNode
from tests.services.worker import WorkerProcess

EXAMPLE = Path(__file__).parents[2] / "examples" / "near_duplicates"
ENGINE_START_SECONDS = 600.0
"""About a minute on a machine that does nothing else."""
TEXTS = [
    "Free shipping on all orders over 50 euros, within Europe and to Switzerland",
    "Returns are accepted within 30 days",
    "FREE  shipping on all orders over 50 euros, within Europe and to Switzerland!",
]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model's folder; the package is installed where the worker finds it, and nowhere else."""
    site, source, model = tmp_path / "site", tmp_path / "source", tmp_path / "simhash"
    copytree(EXAMPLE, source)  # the build writes beside the sources
    install = [find_uv(), "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([*install, "--target", str(site), str(source)], check=True)
    monkeypatch.setenv("PYTHONPATH", str(site))
    subprocess.run([sys.executable, "-m", "near_duplicates.make_model", str(model)], check=True)
    return model


def signature(model: Path, text: str) -> str:
    """SimHash by its definition, one run of 8 bytes at a time, in Python's integers."""
    vectors = load_file(model / "model.safetensors")["vectors.weight"]
    ids = Tokenizer.from_file(str(model / "tokenizer.json")).encode(text).ids
    total = np.zeros(64)
    for end in range(len(ids)):
        run = 0
        for place in range(end - 7, end + 1):
            run = run * 257 + (ids[place] + 1 if place >= 0 else 0)
        mixed = run * 0x9E3779B97F4A7C15 % 2**64
        mixed -= 2**64 if mixed >= 2**63 else 0
        total += vectors[(mixed >> 33) % len(vectors)]
    return f"{sum(1 << place for place in range(64) if total[place] > 0):016x}"


def asked(name: str, data: Any, processor: str = "near_duplicates") -> dict[str, Any]:
    return {"id": name, "task": "plugin", "processor": processor, "data": data}


@pytest.mark.vllm
@pytest.mark.timeout(900)
async def test_a_model_and_an_io_processor_installed_by_pip_answer_plugin_requests(
    kafka: KafkaNode, redis: RedisNode, topics: CreateTopics, example: Path, tmp_path: Path
):
    names = await topics(kafka, requests=1, results=1, dead=1)
    settings = {
        "engine.kind": "vllm",
        "engine.model": example,
        "engine.dtype": "float32",
        "engine.args": '{"enforce_eager": true}',
    }
    worker = WorkerProcess(tmp_path, worker_settings(kafka, redis, names) | settings)
    worker.spawn()
    await worker.wait_for_event("running", ENGINE_START_SECONDS)
    requests = [
        asked("three", {"texts": TEXTS}),
        asked("without texts", {"texts": []}),
        asked("not data", {"secret": 1}),
        asked("unknown", {"texts": TEXTS}, processor="far_duplicates"),
        asked("too long", {"texts": [TEXTS[0], "x" * 5000]}),
        {"id": "other task", "task": "rerank", "query": "q", "documents": ["d"]},
        *(asked(f"many {number}", {"texts": [f"text number {number}"]}) for number in range(100)),
    ]
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for one in requests:
            await producer.send(names["requests"], json.dumps(one).encode())
    records = await read_topic(kafka.bootstrap_servers, names["results"], len(requests), timeout_seconds=120)
    assert await worker.stop() == 0

    (warming,) = [event for event in worker.events() if event["event"] == "warming"]
    assert warming["io_processors"] == ["near_duplicates (scorestream-near-duplicates 0.1.0)"]
    answers = {one["id"]: one for one in (json.loads(record.value) for record in records)}
    assert [*answers] == [one["id"] for one in requests]
    assert answers["three"]["results"] == [
        {"index": 0, "data": {"signatures": [signature(example, text) for text in TEXTS], "groups": [[0, 2], [1]]}}
    ]
    assert answers["three"]["scale"] is None
    assert answers["three"]["usage"]["prompt_tokens"] == sum(len(re.sub(r"\s+", " ", text)) for text in TEXTS)
    codes = {name: answer["error"]["code"] for name, answer in answers.items() if answer["status"] == "error"}
    assert codes == {
        "without texts": "schema",
        "not data": "schema",
        "unknown": "unsupported_task",
        "too long": "too_long",
        "other task": "unsupported_task",
    }
    assert "`data.texts`: List should have at least 1 item" in answers["without texts"]["error"]["message"]
    for number in range(100):
        (found,) = answers[f"many {number}"]["results"]
        assert found["data"]["signatures"] == [signature(example, f"text number {number}")]
