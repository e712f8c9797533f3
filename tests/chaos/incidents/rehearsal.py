"""One incident from its beginning to its end, and whether what was seen of it was right."""

import asyncio
import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from consumer.errors import causes_of
from tests.chaos.incidents.catalogue import Incident
from tests.chaos.incidents.rules import RUNBOOK_URL
from tests.chaos.incidents.scene import Scene, Servers

RUNBOOK = Path(__file__).parents[3] / "docs" / "operate.md"
PAGE = "critical"
LAST_SECONDS = 20.0
"""So long an incident lasts at least: the pages that wait longest (five minutes, shortened) show, too."""
CALM_SECONDS = 400.0
"""A backlog has to be worked off, and the longest range to pass."""


@dataclass(slots=True)
class Outcome:
    """What was seen. `fired`: alert -> seconds from the incident's beginning; None: it did not."""

    incident: str
    fired: dict[str, float | None] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    """Alerts that fired beside those that had to."""
    resolved_seconds: float | None = None
    """From the end of the cause until nothing fired any more."""
    wrong: list[str] = field(default_factory=list)


async def rehearse(
    servers: Servers,
    incident: Incident,
    folder: Path,
    tell: Callable[[str], None],
    last_seconds: float = LAST_SECONDS,
) -> Outcome:
    """On a scene of its own; the incident lasts at least so long. What is not as it should be is in the outcome."""
    outcome = Outcome(incident.name, dict.fromkeys(incident.alerts))
    scene = Scene(servers, incident.name, folder, incident.setting)
    try:
        async with scene.open():
            tell(f"{incident.name}: begins; {scene.prometheus.url}, {', '.join(pod.url for pod in scene.pods)}")
            async with incident.strike(scene):
                began = time.monotonic()
                await _suffer(scene, incident, outcome)
                await asyncio.sleep(max(0.0, began + last_seconds - time.monotonic()))
                _judge_pages(incident, await scene.fired(time.monotonic() - began), outcome)
            tell(f"{incident.name}: its cause is gone")
            over = time.monotonic()
            await scene.until(scene.is_calm, "nothing fires any more", CALM_SECONDS)
            outcome.resolved_seconds = time.monotonic() - over
    except* TimeoutError as late:
        outcome.wrong += map(str, causes_of(late))
    return outcome


async def _suffer(scene: Scene, incident: Incident, outcome: Outcome) -> None:
    """Until everything that has to be seen was seen."""
    began, urls = time.monotonic(), set[str]()

    async def watch(name: str) -> None:
        labels = set(incident.labels if name == incident.alerts[0] else ())

        async def fires() -> bool:
            found = [one for one in await scene.prometheus.firing() if one.name == name]
            urls.update(one.annotations.get("runbook_url", "") for one in found)
            return any(labels <= set(one.labels.items()) for one in found)

        await scene.until(fires, f"{name} fires with {dict(labels)}")
        outcome.fired[name] = time.monotonic() - began

    async with asyncio.TaskGroup() as watching:
        for name in incident.alerts:
            watching.create_task(watch(name))
    # Not before: then a pod has said what it says of this incident.
    for path, conditions in (("/readyz", incident.ready), ("/livez", incident.live)):
        await _says(scene, path, set(conditions))
    outcome.wrong += judged_runbook(urls, incident.named)


async def _says(scene: Scene, path: str, conditions: set[str]) -> None:
    """Some pod says all of them; without any, every pod says that all is well."""

    async def said() -> bool:
        told = [await pod.conditions(path) for pod in scene.pods]
        return any(conditions <= one for one in told) if conditions else not any(told)

    await scene.until(said, f"{path} says {sorted(conditions) or 'that all is well'}")


def _judge_pages(incident: Incident, fired: dict[str, str], outcome: Outcome) -> None:
    outcome.others = sorted(set(fired) - set(incident.alerts))
    expected = set(incident.alerts) | incident.beside
    outcome.wrong += [
        f"{name} paged, which is another cause's"
        for name in outcome.others
        if fired[name] == PAGE and name not in expected
    ]


def judged_runbook(urls: Collection[str], named: Sequence[str]) -> list[str]:
    """What is wrong: URLs that lead nowhere, or sections that do not speak of what they should."""
    sections = _sections(RUNBOOK.read_text())
    wrong, text = [], ""
    for url in sorted(urls):
        page, _, anchor = url.partition("#")
        if page != RUNBOOK_URL or anchor not in sections:
            wrong.append(f"runbook_url {url!r} leads nowhere")
        text += sections.get(anchor, "")
    return wrong + [f"the runbook's section does not speak of {word!r}" for word in named if word not in text]


def _sections(page: str) -> dict[str, str]:
    """Anchor -> text, of each heading."""
    parts = re.split(r"^#+ (.+)$", page, flags=re.MULTILINE)[1:]
    return {title.lower(): text.replace("\n", " ") for title, text in zip(parts[::2], parts[1::2], strict=True)}


def table(outcomes: Iterable[Outcome]) -> str:
    """A line for each: the incident, what fired after how long, and when it was over."""
    rows = [("incident", "alert (seconds until it fired)", "beside it", "resolved")]
    for one in outcomes:
        fired = ", ".join(f"{name} ({_seconds(seconds)})" for name, seconds in one.fired.items())
        rows.append((one.incident, fired, ", ".join(one.others) or "-", _seconds(one.resolved_seconds)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _seconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f} s"
