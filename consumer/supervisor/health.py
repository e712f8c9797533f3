"""What a supervisor answers for all of its workers. Pure.

| what is wrong                              | live | ready | and then                                     |
| ------------------------------------------ | ---- | ----- | -------------------------------------------- |
| the supervisor does not run                | no   | no    | whoever asks gets no answer                  |
| it has given up                            | no   | no    | the other workers drain, and it exits        |
| a worker is not live                       | yes  | no    | it is killed after three looks, and restarted |
| a worker is down, starts, or waits         | yes  | no    |                                              |
| a worker is not ready                      | yes  | no    |                                              |
| the workers drain                          | yes  | no    |                                              |

Not live means that a restart of all would help. A single worker is restarted by the supervisor, which would otherwise
cost the others their models. Ready means that every worker is: all that was paid for is at work, so that a rollout goes
on only then, and nothing that a single worker would report is hidden behind its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consumer.supervisor.roster import Phase


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that is wrong with a worker; `condition` is a name of consumer/health.py, or a phase, or no_answer."""

    condition: str
    detail: str


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """One worker. `reasons`: none when nothing is wrong."""

    worker: int
    phase: Phase
    pid: int | None
    reasons: tuple[Reason, ...] = ()


def as_text(problem: str | None, workers: Sequence[WorkerHealth], *, ok: bool) -> str:
    """What is wrong with the supervisor itself, or `ok`; then a line for each worker, or for each of its reasons."""
    lines = [problem] if problem else ["ok"] if ok else []
    for one in workers:
        head = f"worker {one.worker}: {one.phase}"
        lines += [f"{head}: {reason.condition}: {reason.detail}" for reason in one.reasons] or [head]
    return "\n".join(lines) + "\n"


def as_document(problem: str | None, workers: Sequence[WorkerHealth], *, ok: bool) -> dict[str, object]:
    """The same as JSON."""
    return {
        "ok": ok,
        "problem": problem,
        "workers": [
            {
                "worker": one.worker,
                "phase": one.phase.value,
                "pid": one.pid,
                "reasons": [{"condition": reason.condition, "detail": reason.detail} for reason in one.reasons],
            }
            for one in workers
        ],
    }
