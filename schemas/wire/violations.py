"""pydantic's errors as one short sentence for the caller, without the input.

pydantic's own text of 20 000 errors has 3.6 MB and quotes every value.
"""

from collections.abc import Collection
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from schemas.wire.names import meant_document_field
from schemas.wire.strict_json import shown_name

_MAX_SHOWN = 3
_LISTS = ("documents", "input")

_TEXTS = {
    "missing": "is required",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be a string or an object with `text`",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must not contain control characters",
    "too_short": "must not be empty",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
}


def describe_violations(invalid: ValidationError) -> tuple[str, int | None]:
    """(message, index): the first few violations, and the list item at fault where it is one item's fault."""
    errors = invalid.errors(include_url=False, include_input=False)
    missing = {error["loc"] for error in errors if error["type"] == "missing"}
    shown = "; ".join(_describe(error, missing) for error in errors[:_MAX_SHOWN])
    if len(errors) > _MAX_SHOWN:
        shown += f"; and {len(errors) - _MAX_SHOWN} more"
    indices = {_item_index(error["loc"]) for error in errors}
    return shown, indices.pop() if len(indices) == 1 else None


def _describe(error: ErrorDetails, missing: Collection[tuple[int | str, ...]]) -> str:
    *parents, last = error["loc"] or ("",)
    context: dict[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            given = {} if (*parents, "text") in missing else {"text": "given"}
            meant = meant_document_field(str(last), given)
            return f"{_path(parents)} has the unknown field {shown_name(str(last))}" + (f" ({meant})" if meant else "")
        case "value_error":
            return str(context["error"])
        case "greater_than_equal" | "less_than_equal" if last == "deadline_unix_ms":
            return "`deadline_unix_ms` must be between 10^12 and 10^13: is it in milliseconds?"
    where = _path([*parents, last])
    text = _TEXTS.get(error["type"])
    return f"{where} {text.format_map(context)}" if text else f"{where}: {error['msg']}"


def _path(location: list[int | str]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return f"`{text.removeprefix('.')}`"


def _item_index(location: tuple[int | str, ...]) -> int | None:
    if len(location) > 1 and location[0] in _LISTS and isinstance(location[1], int):
        return location[1]
    return None
