"""Every failure the worker knows, by whose fault it is.

| type                  | fault      | retried        | offset                            | who sees it       |
| --------------------- | ---------- | -------------- | --------------------------------- | ----------------- |
| RecordRejected        | the record | never          | advances when its answer is acked | the caller        |
| DependencyUnavailable | dependency | until it works | held, only this lane waits        | metric, readiness |
| Unanswered            | dependency | until it works | held, only this lane waits        | metric, readiness |
| PartitionLost         | nobody     | no             | not ours any more                 | metric            |
| MicroBatchFailed      | unknown    | in halves      | advances for all but the one      | the caller        |
| EngineDead            | dependency | one at a time  | held; restart, or exit 1          | exit code, alert  |
| PartitionStuck        | ours       | no             | held; another engine, or exit 1   | liveness, exit    |
| SettingsInvalid       | operator   | no             | nothing was consumed; exit 2      | text with the fix |
| anything else         | ours       | no             | held; the process crashes         | a bug             |

An exception inside a pure per-record stage is `internal`: that record's error result and dead letter, never a crash.
"""

from enum import StrEnum

from schemas.errors import ErrorCode


class Hindrance(StrEnum):
    """Why Kafka is of no use to a worker: nobody answers, or it is not let in, or not allowed what it asks for."""

    BROKER_AWAY = "broker_away"
    TOKEN_UNAVAILABLE = "token_unavailable"  # noqa: S105 - no password
    AUTHENTICATION_FAILED = "authentication_failed"
    SOURCE_REFUSED = "source_refused"


class RecordRejected(Exception):
    """This record can never be answered with a score here; the caller gets `code` and `message`.

    `message` never contains the caller's input and is at most a few hundred characters.
    `index` names the offending item of the request's list, if it is one item's fault.
    """

    def __init__(self, code: ErrorCode, message: str, *, index: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.index = index


class DependencyUnavailable(Exception):
    """Kafka or Redis did not take what we wrote; the same chunk goes again, in order, until it does.

    `hindrance`: where it is known that what was to be written is not the reason, nor where.
    """

    def __init__(self, dependency: str, reason: str, hindrance: Hindrance | None = None) -> None:
        super().__init__(f"{dependency}: {reason}")
        self.dependency = dependency
        self.reason = reason
        self.hindrance = hindrance


class Unanswered(DependencyUnavailable):
    """It did not answer in time, and may have done what it was asked for all the same."""


class PartitionLost(Exception):
    """The group took these partitions from us; a commit for them was refused. Whoever owns them now redoes the work."""


class MicroBatchFailed(Exception):
    """The engine lives, but failed on these inputs together, and did not say on which."""


class EngineDead(Exception):
    """This engine will not answer any more, what was in flight has no outcome."""


class PartitionStuck(Exception):
    """The head of a partition does not move and nothing that has a name holds it.

    `in_engine`: the engine has it, and another engine may help; else only a new process does, and the message names
    topic, partition and offset of every head that is stuck.
    """

    def __init__(self, message: str, *, in_engine: bool) -> None:
        super().__init__(message)
        self.in_engine = in_engine


class SettingsInvalid(Exception):
    """The deployment cannot work as configured; the message names the setting, its value and the fix."""


class WeightsUnusable(Exception):
    """The weight files of a model's folder, or of one of its modules', cannot be read, or not in one way only."""


def causes_of(failure: Exception) -> list[Exception]:
    """What really failed: a task group wraps it."""
    if isinstance(failure, ExceptionGroup):
        return [cause for one in failure.exceptions for cause in causes_of(one)]
    return [failure]
