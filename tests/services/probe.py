"""What a worker says of itself on its port, as whoever probes or scrapes it sees it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

ANSWER_SECONDS = 30.0
"""For one answer. A busy machine is not a defect; who wants to see a silent worker asks for less."""
PATIENCE_SECONDS = 60.0
ASK_EVERY_SECONDS = 0.05


@dataclass(frozen=True)
class Answer:
    """To one probe. `conditions`: what is wrong, by name."""

    status: int
    text: str

    @property
    def conditions(self) -> set[str]:
        """Empty when all is well."""
        return {line.partition(":")[0] for line in self.text.splitlines()} - {"ok"}


class Scrape:
    """One answer of /metrics."""

    def __init__(self, text: str) -> None:
        self.samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def __call__(self, name: str, **labels: str) -> float:
        """The sum over all series with these labels."""
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == f"scorestream_{name}" and labels.items() <= sample.labels.items()
        )


class Probe:
    """Asks one worker, or one supervisor, as a kubelet does."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    async def ask(self, path: str, timeout_seconds: float = ANSWER_SECONDS, **headers: str) -> Answer:
        """Raises aiohttp.ClientError while nobody listens, TimeoutError when nobody answers."""
        timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(self.url + path, headers=headers) as got,
        ):
            return Answer(got.status, await got.text())

    async def until(self, path: str, wanted: Callable[[Answer], bool], what: str) -> Answer:
        """The first answer that is wanted. Raises TimeoutError with the last one."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        answer: Answer | None = None
        while True:
            try:
                answer = await self.ask(path)
            except aiohttp.ClientConnectorError:
                answer = None
            if answer is not None and wanted(answer):
                return answer
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path}: not within {PATIENCE_SECONDS:g} s: {what}; the last answer: {answer}")
            await asyncio.sleep(ASK_EVERY_SECONDS)

    async def until_ready(self) -> None:
        """Wait until /readyz says so."""
        await self.until("/readyz", lambda answer: answer.status == 200, "ready")

    async def until_in_engine(self, sequences: int = 1) -> None:
        """Wait until the engine, or all of them together, has so many."""
        await self.until(
            "/metrics",
            lambda answer: Scrape(answer.text)("engine_sequences") >= sequences,
            "requests are in the engine",
        )
