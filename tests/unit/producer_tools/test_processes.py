"""Child processes."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from producer_tools.console import ToolFailure
from producer_tools.local.cpu import Role, cpu_seconds, difference
from producer_tools.local.processes import Child, ChildEnded, running
from producer_tools.local.worker import Scorestream, until_ready
from tests.services.process import is_alive

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def python(code: str, log: Path, kind: type[Child] = Child):
    command = [sys.executable, "-c", code]
    return running("child", command, environment=os.environ, log=log, grace_seconds=0.5, kind=kind)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


def written(log: Path) -> Callable[[], bool]:
    return lambda: log.read_text().endswith("\n")


async def test_a_child_that_ignores_sigterm_is_killed_with_what_it_started(tmp_path: Path) -> None:
    async with python(STUBBORN, tmp_path / "log") as child:
        await until(written(child.log))
        grandchild = int(child.last_lines().split()[-1])
        assert is_alive(grandchild)
    await until(lambda: not is_alive(child.pid) and not is_alive(grandchild))


async def test_a_child_that_ends_too_early_is_told_with_its_last_words(tmp_path: Path) -> None:
    async with python("print('the reason'); raise SystemExit(7)", tmp_path / "log") as child:
        with pytest.raises(ToolFailure, match=r"exit code 7(.|\n)*the reason"):
            async with asyncio.timeout(20):
                await child.while_running(asyncio.Event().wait())


def logged(event: str, logger: str = "consumer.worker", **fields: object) -> str:
    return json.dumps({"event": event, "logger": logger} | fields) + "\n"


LAST_WORDS = {
    logged("stopped", "consumer.exit_code", reason="kafka: it is away"): "kafka: it is away",
    logged("refused to start", "consumer.exit_code", reason="no topic"): "no topic",
    logged("stopped", reason="first") + logged("giving up", "consumer.supervisor", reason="five times"): "five times",
    "a library's\nerror: no such model\n": "no such model",
    "settings: engine.model is missing\n": "engine.model is missing",
    "Traceback\nImportError: no module\n": "ImportError: no module",
}


@pytest.mark.parametrize(("output", "reason"), LAST_WORDS.items())
async def test_a_worker_that_ends_is_told_with_its_own_reason(tmp_path: Path, output: str, reason: str) -> None:
    code = f"import sys; sys.stderr.write({output!r} + 'a warning of a library' * {not reason.startswith('Import')})"
    async with python(f"{code}; raise SystemExit(1)", tmp_path / "log", Scorestream) as child:
        with pytest.raises(ChildEnded, match="the child ended with exit code 1") as told:
            async with asyncio.timeout(20):
                await child.while_running(asyncio.Event().wait())
        assert told.value.reason == reason
        with pytest.raises(ChildEnded) as told:
            await child.ended_well()
        assert told.value.reason == reason


async def test_the_first_end_of_a_supervisors_worker_ends_what_depends_on_it(tmp_path: Path) -> None:
    """It is restarted, again and again; what is measured would wait for it until its time is over."""
    end = logged("worker ended", "consumer.supervisor.slot", worker=1, exit_code=3, reason="EngineDead: no memory")
    code = (
        f"import sys, time; sys.stderr.write({logged('worker started') + end!r}); sys.stderr.flush(); time.sleep(600)"
    )
    async with python(code, tmp_path / "log", Scorestream) as child:
        with pytest.raises(
            ChildEnded, match="worker 1 of the supervisor ended with exit code 3: EngineDead: no memory"
        ):
            async with asyncio.timeout(20):
                await child.while_running(until_ready(child.log, lambda _event: None, workers=2))


async def test_the_worker_is_ready_when_its_log_says_so(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(logged("starting") + "a library's line\n" + logged("of a library", "vllm") + logged("warming")[:12])
    phases: list[str] = []
    ready = asyncio.create_task(until_ready(log, phases.append))
    await until(lambda: phases == ["starting"])
    assert not ready.done()
    with log.open("a") as more:
        more.write(logged("warming")[12:] + logged("running"))
    async with asyncio.timeout(10):
        await ready
    assert phases == ["starting", "warming"]


BUSY = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
WORKER = f"""
import multiprocessing, threading, time
def engine():
    exec({BUSY!r})
    print(flush=True)
    time.sleep(600)
if __name__ == "__main__":
    {BUSY.replace(chr(10), chr(10) + "    ")}
    thread = threading.Thread(target=exec, args=({BUSY.replace("process_time", "thread_time")!r},))
    thread.start()
    thread.join()
    multiprocessing.get_context("spawn").Process(target=engine).start()
    time.sleep(600)
"""


async def test_processor_time_is_told_apart_by_what_a_process_is_for(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    # Some ticks of the clock that the system counts in: a start alone may fall between two.
    busy = "import subprocess, sys, time\nwhile time.process_time() < 0.1: pass\n"
    supervisor = f"{busy}subprocess.run([sys.executable, {str(script)!r}])"
    async with python(supervisor, tmp_path / "log") as child:
        await until(written(child.log))
        used = cpu_seconds(child.pid)
    assert used[Role.ENGINE] >= 0.3
    assert used[Role.WORKER] >= 0.6
    assert 0.3 <= used[Role.EVENT_LOOP] <= used[Role.WORKER] - 0.25
    assert 0 < used[Role.SUPERVISOR] < 0.3
    assert difference(used, used) == dict.fromkeys(Role, 0.0)
    with pytest.raises(ToolFailure, match="no process"):
        cpu_seconds(child.pid)
