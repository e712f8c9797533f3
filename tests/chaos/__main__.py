"""The drills. `make chaos` is the first one; each says what it does: `python -m tests.chaos kills --help`."""

import random
from pathlib import Path
from typing import Annotated

import typer

from producer_tools.console import say
from tests.chaos import hot, kills, outage, overload, storm, workers
from tests.chaos.drill import Drill, Options
from tests.chaos.forms import Engine
from tests.chaos.incidents import command
from tests.chaos.running import run_drill

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Strike real workers, then judge from outside.",
)


@app.command()
def faults(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long faults strike.")] = 10.0,
    seed: Annotated[int | None, typer.Option(help="Which faults; default: another every time.")] = None,
    engine: Annotated[Engine, typer.Option(help="vllm: the real one, on CPU, with a small model.")] = Engine.SCRIPTED,
    workers: Annotated[int | None, typer.Option(min=1, help="Default: as many as the engine can bear.")] = None,
    requests_per_second: Annotated[float | None, typer.Option(min=1, help="Default: likewise.")] = None,
) -> None:
    """Several workers on Apache Kafka and Redis under load, faults at random, then the judgement.

    With the same seed the same faults strike at the same moments; what the machine makes of it differs.
    """
    chosen = random.randrange(1_000_000) if seed is None else seed
    say(f"seed {chosen}")
    options = Options(chosen, 60 * minutes, engine, workers, requests_per_second)

    async def drill(folder: Path) -> list[str]:
        judgement = await Drill(folder, options, say).run()
        say(str(judgement))
        return judgement.mismatches

    run_drill("chaos", drill)


app.command("incidents")(command.main)
app.command("kills")(kills.main)
app.command("outage")(outage.main)
app.command("overload")(overload.main)
app.command("hot")(hot.main)
app.command("storm")(storm.main)
app.command("workers")(workers.main)

if __name__ == "__main__":
    app()
