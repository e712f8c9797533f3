"""`make chaos`: strike for some minutes, then judge. Exit code 0: every promise was kept; 3: one was not.

With the same seed the same faults strike at the same moments; what the machine makes of it differs.
"""

import asyncio
import logging
import random
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from producer_tools.console import ExitCode, say
from tests.chaos.drill import Drill, Options, explain, log_tails


def main(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long faults strike.")] = 10.0,
    seed: Annotated[int | None, typer.Option(help="Which faults; default: another every time.")] = None,
    workers: Annotated[int, typer.Option(min=1)] = 3,
    requests_per_second: Annotated[float, typer.Option(min=1)] = 150.0,
) -> None:
    """Several workers on Apache Kafka and Redis under load, faults at random, then the judgement."""
    chosen = random.randrange(1_000_000) if seed is None else seed
    folder = Path(tempfile.mkdtemp(prefix="scorestream-chaos-"))
    # The drill's own clients: every refused connection of a broker that is down on purpose.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    say(f"seed {chosen}, logs in {folder}")
    try:
        judgement = asyncio.run(Drill(folder, Options(chosen, 60 * minutes, workers, requests_per_second), say).run())
    except BaseException:
        say(f"no judgement on seed {chosen}\n{log_tails(folder)}")
        raise
    if judgement.mismatches:
        say(explain(judgement, chosen, folder))
        raise typer.Exit(ExitCode.MISMATCH)
    say(str(judgement))
    shutil.rmtree(folder)


if __name__ == "__main__":
    typer.run(main)
