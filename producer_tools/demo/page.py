"""What the demo prints: plain words, at most 80 columns."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from producer_tools.demo.corpus import QUESTIONS
from producer_tools.demo.work import Answers
from producer_tools.load import LoadResult
from producer_tools.local.services import Services


def title(console: Console) -> None:
    """What this is."""
    console.print(Text("scorestream demo", style="bold"))
    console.print("Requests in from Kafka, scores by vLLM, results out to Kafka and Redis.")


def phase(console: Console, number: int, name: str, words: str) -> None:
    """A phase begins."""
    console.print()
    console.print(Text.assemble((f"{number}  {name}", "bold cyan")))
    console.print(f"   {words}", markup=False)


def fact(console: Console, words: str) -> None:
    """Something happened."""
    console.print(f"   {words}", style="dim", markup=False)


def rankings(console: Console, answers: Answers) -> None:
    """The best documents of every question."""
    for number, question in enumerate(QUESTIONS):
        console.print(Text(f"   {question}", style="bold"))
        for ranked in answers.best(number):
            console.print(Text.assemble((f"     {ranked.score:.3f}  ", "green"), ranked.name))


def speed(console: Console, load: LoadResult, answers: Answers, first_score_seconds: float) -> None:
    """How fast it was."""
    console.print()
    rerank, embed = answers.by_task["rerank"], answers.by_task["embed"]
    fact(console, f"{rerank} rerank and {embed} embed requests ({answers.vector_numbers} numbers a vector)")
    fact(console, f"{load.requests_per_second:.1f} requests/s for {load.seconds:.1f} s")
    fact(console, f"latency p50 {load.percentile_ms(50):.0f} ms, p99 {load.percentile_ms(99):.0f} ms")
    fact(console, f"first score {first_score_seconds:.0f} s after the demo began")


def by_hand(console: Console, services: Services) -> None:
    """The same without any of our tools."""
    phase(console, 6, "By hand", "Any Kafka and Redis client will do; with `scorestream demo --keep`, try:")
    request = '{"id":"hello","task":"score","query":"a cat","document":"a tiger"}'
    for line in (
        f"echo '{request}' |",
        f"  kcat -P -b {services.bootstrap_servers} -t score.requests",
        f"redis-cli -p {services.redis_port} GET score:hello",
        f"kcat -C -b {services.bootstrap_servers} -t score.results -o beginning -e",
    ):
        console.print(f"   {line}", markup=False, soft_wrap=True)


def keeping(console: Console, log: Path) -> None:
    """Everything stays until Ctrl-C."""
    console.print()
    console.print("Running until Ctrl-C.", style="bold")
    fact(console, f"The worker's log: {log}")
