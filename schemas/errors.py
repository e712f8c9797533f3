"""The closed list of error codes and what each means for the dead-letter topic and for a retry."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


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

    @property
    def explanation(self) -> "Explanation":
        """For people who meet it."""
        return _EXPLANATIONS[self]


class Explanation(NamedTuple):
    """`when` it is answered, and the `remedy`."""

    when: str
    remedy: str


_EXPLANATIONS: Mapping[ErrorCode, Explanation] = {
    ErrorCode.MALFORMED: Explanation(
        "The value is not one JSON object, or not UTF-8, or null, and the message names the format where its bytes "
        "tell; or the record cannot be read.",
        "Mend the producer: send plain JSON, without framing and compression of its own "
        "([from other tools](requests.md#from-other-tools)).",
    ),
    ErrorCode.SCHEMA: Explanation(
        "A field is missing, unknown, of another task, or has a wrong type or value; or the request is inside of an "
        "envelope; or `timeout_ms` counts from a timestamp that is none; or a header's name is not UTF-8. The message "
        "names it.",
        "Mend the producer; `scorestream schema request` is what it must satisfy, [requests](requests.md) says it in "
        "words.",
    ),
    ErrorCode.UNSUPPORTED_VERSION: Explanation(
        "`schema` is above what this worker knows.", "Upgrade the workers, then replay. Workers go before producers."
    ),
    ErrorCode.UNSUPPORTED_TASK: Explanation(
        "The loaded model cannot do this task; the message says which it can.",
        "Send it to the topic of a model that can, or deploy one; then replay.",
    ),
    ErrorCode.WRONG_MODEL: Explanation(
        "`model` is none of the worker's `engine.served_names`.",
        "Mend the producer, or serve that name; then replay.",
    ),
    ErrorCode.TOO_LONG: Explanation(
        "A text does not fit the model, or `limits.max_text_bytes`, and may not be cut.",
        "Shorten it, or let it be cut: `truncate: true`. A query is never cut.",
    ),
    ErrorCode.TOO_MANY_ITEMS: Explanation(
        "More documents or inputs than `limits.max_items`.", "Send them as several requests, or raise the limit."
    ),
    ErrorCode.EMPTY_INPUT: Explanation("A text has no token of content.", "Leave it out."),
    ErrorCode.RESULT_TOO_LARGE: Explanation(
        "The result is larger than the results topic's max.message.bytes.",
        "Ask for less (`top_n`, `top_k`, `dimensions`, `encoding_format: base64`), or raise the topic's limit.",
    ),
    ErrorCode.ENGINE_REJECTED: Explanation(
        "The engine refuses the sequence, or died twice while it had nothing else.",
        "Of one request: look at its text. Of many: compare with the last deployment.",
    ),
    ErrorCode.NON_FINITE: Explanation(
        "The model gave numbers that are not finite.",
        "Look at the weights and `engine.dtype`: float16 overflows first.",
    ),
    ErrorCode.INTERNAL: Explanation(
        "A stage of the worker, or an IO processor, failed on this request.",
        "The worker's log has the stage and the trace. Report it; replay after an upgrade.",
    ),
    ErrorCode.EXPIRED: Explanation(
        "The deadline passed before the request could enter the engine.",
        "Ask again if somebody still waits. Of many: more workers, or look at `scorestream_record_age_seconds`.",
    ),
    ErrorCode.CANCELLED: Explanation("Reserved; version 1 has no cancel.", "Nothing: it is not answered."),
}
