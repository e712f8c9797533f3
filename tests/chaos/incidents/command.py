"""`python -m tests.chaos incidents`: rehearse all or some incidents, or play one blind."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from producer_tools.console import say
from tests.chaos.incidents.blind import play
from tests.chaos.incidents.catalogue import CATALOGUE, NAMES, Incident, named
from tests.chaos.incidents.rehearsal import rehearse, table
from tests.chaos.incidents.scene import serving
from tests.chaos.running import run_drill


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Which: {', '.join(NAMES)}. Default: all.")] = None,
    blind: Annotated[int | None, typer.Option(help="One that this seed chooses, and nobody is told which.")] = None,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long --blind lasts, unless Enter ends it.")] = 15.0,
) -> None:
    """Bring incidents about on real workers; a real Prometheus with the chart's alerts has to name each."""
    if unknown := set(names or ()) - set(NAMES):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: there is {', '.join(NAMES)}")
    if blind is not None:
        run_drill("incidents", partial(_play, blind, minutes))
    else:
        run_drill("incidents", partial(_rehearse, [named(name) for name in names] if names else CATALOGUE))


async def _rehearse(incidents: Sequence[Incident], folder: Path) -> list[str]:
    outcomes = []
    async with serving(folder) as servers:
        for incident in incidents:
            outcome = await rehearse(servers, incident, folder / incident.name, say)
            say("\n".join([table([outcome]), *outcome.wrong]))
            outcomes.append(outcome)
    say(table(outcomes))
    return [f"{one.incident}: {wrong}" for one in outcomes for wrong in one.wrong]


async def _play(seed: int, minutes: float, folder: Path) -> list[str]:
    async with serving(folder) as servers:
        await play(servers, seed, minutes, folder, say)
    return []
