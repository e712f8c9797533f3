"""SIGTERM in the middle of the start of vLLM's own process: nothing of it stays behind."""

import signal
import time
from pathlib import Path

import pytest
import pytest_asyncio

from tests.conftest import CreateTopics
from tests.integration.test_worker_scripted import worker_settings
from tests.services.kafka import KafkaNode
from tests.services.process import is_alive, wait_until
from tests.services.redis import RedisNode
from tests.services.worker import WorkerProcess

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

ENDED_SECONDS = 5.0
"""A second, and what a busy machine adds."""


def descendants(pid: int) -> set[int]:
    """Children of whichever thread, theirs, and so on."""
    found: set[int] = set()
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found |= {int(child) for child in children.read_text().split()}
        except OSError:  # the thread has ended meanwhile
            continue
    return found | {deeper for child in found for deeper in descendants(child)}


def group_of(pid: int) -> set[int]:
    """Processes of its process group that are alive; also those whose parent has ended."""
    members = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == pid and fields[0] != "Z":
            members.add(int(stat.parent.name))
    return members


def maps(pid: int, library: str) -> bool:
    try:
        return library in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


@pytest_asyncio.fixture
async def worker(
    kafka: KafkaNode, redis: RedisNode, topics: CreateTopics, minilm_embed: Path, tmp_path: Path
) -> WorkerProcess:
    """With the real engine; not started yet."""
    names = await topics(kafka, requests=2, results=2, dead=2)
    engine = {
        "engine.kind": "vllm",
        "engine.model": minilm_embed,
        "engine.dtype": "float32",
        "engine.args": '{"enforce_eager": true}',
    }
    return WorkerProcess(tmp_path, worker_settings(kafka, redis, names) | engine)


@pytest.mark.parametrize("moment", ["spawned", "imports torch", "loads the model"])
async def test_a_signal_while_the_engine_starts_leaves_no_process_behind(moment: str, worker: WorkerProcess):
    worker.spawn()
    await worker.wait_for_event("warming", 120)
    reached = {
        "spawned": lambda: any("spawn_main" in command(pid) for pid in descendants(worker.pid)),
        "imports torch": lambda: any(maps(pid, "libtorch_cpu") for pid in engine(worker.pid)),
        "loads the model": lambda: any("EngineCore" in command(pid) for pid in descendants(worker.pid)),
    }
    await wait_until(reached[moment], moment, 300, every_seconds=0.005)
    left = descendants(worker.pid)
    worker.send(signal.SIGTERM)
    began = time.monotonic()
    assert await worker.wait() == 1
    assert time.monotonic() - began < ENDED_SECONDS
    await wait_until(lambda: not any(map(is_alive, left)) and not group_of(worker.pid), "nothing is left")


def engine(worker: int) -> set[int]:
    """The processes that the worker has spawned through multiprocessing."""
    return {pid for pid in descendants(worker) if "spawn_main" in command(pid)}


def command(pid: int) -> str:
    """As `ps` shows it."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
