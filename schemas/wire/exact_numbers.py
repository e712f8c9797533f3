"""Numbers that no double holds, such as 12345678901234567.89 and 1e-400: echoed as the caller wrote them.

A double is read first, because that is fast and nearly always equal. Only where there is one to echo is the value read
once more, for its digits.
"""

from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any

import jiter
import orjson


class ExactNumber(float):
    """A number between two doubles: the nearest one, with `text`, its digits."""

    __slots__ = ("text",)
    text: bytes


def exact_number(text: str | bytes) -> float:
    """A JSON number as a double if one is equal to it or it is beyond all; else an ExactNumber."""
    number = float(text)
    written = text.encode() if isinstance(text, str) else text
    if not isfinite(number) or orjson.dumps(number) == written or _equals(number, written.decode()):
        return number
    exact = ExactNumber(number)
    exact.text = written
    return exact


def has_float(value: Any) -> bool:
    """Whether a number in this JSON was read as a double."""
    if isinstance(value, float):
        return True
    if isinstance(value, dict):
        return any(map(has_float, value.values()))
    return isinstance(value, list) and any(map(has_float, value))


def exact_field(value: bytes, name: str) -> Any:
    """A field of an object that jiter reads, with exact numbers."""
    return _settled(jiter.from_json(value, catch_duplicate_keys=True, float_mode="lossless-float")[name])


def dump_json(value: Any) -> bytes:
    """Compact JSON; exact numbers with their digits, numpy's as float32. Raises TypeError for what is not JSON."""
    return orjson.dumps(value, default=_written, option=orjson.OPT_SERIALIZE_NUMPY)


def _equals(number: float, text: str) -> bool:
    """Whether readers of the shortest text for this double get the number that `text` is."""
    try:
        return Decimal(repr(number)) == Decimal(text)
    except InvalidOperation:  # an exponent that Decimal does not take
        return False


def _settled(value: Any) -> Any:
    if isinstance(value, jiter.LosslessFloat):
        return exact_number(bytes(value))
    if isinstance(value, dict):
        return {name: _settled(field) for name, field in value.items()}
    return [_settled(item) for item in value] if isinstance(value, list) else value


def _written(value: Any) -> orjson.Fragment:
    if isinstance(value, ExactNumber):
        return orjson.Fragment(value.text)
    raise TypeError(f"{type(value).__name__} is not JSON")
