"""How every drill is run from a terminal. Exit code 0: every promise was kept; 3: one was not."""

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import typer

from producer_tools.console import ExitCode, say

TAIL_LOGS, TAIL_BYTES = 3, 3000


def run_drill(name: str, drill: Callable[[Path], Coroutine[Any, Any, Sequence[str]]]) -> None:
    """`drill` gets a folder for its logs and returns what was not as promised; then the logs' ends are shown."""
    folder = Path(tempfile.mkdtemp(prefix=f"scorestream-{name}-"))
    # The drill's own clients: every refused connection of a broker that is down on purpose.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    say(f"logs in {folder}")
    try:
        wrong = asyncio.run(drill(folder))
    except BaseException:
        say(f"no judgement\n{log_tails(folder)}")
        raise
    if wrong:
        say("\n".join([log_tails(folder), *wrong]))
        raise typer.Exit(ExitCode.MISMATCH)
    shutil.rmtree(folder)


def log_tails(folder: Path) -> str:
    """The ends of the newest logs of every server and worker."""
    # Not the broker's data, whose files are logs, too.
    folders = sorted({log.parent for name in ("server.log", "worker-*.log") for log in folder.rglob(name)})
    logs = [log for one in folders for log in sorted(one.glob("*.log"))[-TAIL_LOGS:]]
    return "\n".join(f"--- {log}\n{log.read_bytes()[-TAIL_BYTES:].decode(errors='replace')}" for log in logs)
