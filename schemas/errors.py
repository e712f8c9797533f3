"""The closed list of error codes and what each means for the dead-letter topic and for a retry."""

from enum import StrEnum


class ErrorCode(StrEnum):
    """Why a request, or one item of it, has no score. Readers accept codes they do not know."""

    MALFORMED = "malformed"
    SCHEMA = "schema"
    UNSUPPORTED_VERSION = "unsupported_version"
    UNSUPPORTED_TASK = "unsupported_task"
    WRONG_MODEL = "wrong_model"
    TOO_LONG = "too_long"
    TOO_MANY_ITEMS = "too_many_items"
    EMPTY_INPUT = "empty_input"
    RESULT_TOO_LARGE = "result_too_large"
    ENGINE_REJECTED = "engine_rejected"
    NON_FINITE = "non_finite"
    INTERNAL = "internal"
    EXPIRED = "expired"
    CANCELLED = "cancelled"

    @property
    def dead_letter(self) -> bool:
        """Whether the original goes to the dead-letter topic."""
        return self not in (ErrorCode.EXPIRED, ErrorCode.CANCELLED)

    @property
    def retryable(self) -> bool:
        """Whether the same bytes may be answered later: after a deployment, or because the fault was ours."""
        return self in (
            ErrorCode.UNSUPPORTED_VERSION,
            ErrorCode.UNSUPPORTED_TASK,
            ErrorCode.WRONG_MODEL,
            ErrorCode.INTERNAL,
            ErrorCode.EXPIRED,
        )
