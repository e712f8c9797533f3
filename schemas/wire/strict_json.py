"""JSON as the contract wants it: UTF-8, no duplicate keys, no NaN, 64-bit integers, real Unicode, bounded depth.

jiter is the only parser most requests ever see. It says little about what it refuses, and nothing of the rest of the
object. So that is read once more by the standard library, which accepts duplicate keys, lone surrogates, integers of
any size and deeper nesting: then the fault can be named and the request's id be read.
"""

import json
import math
from collections import Counter
from typing import Any

import jiter

MAX_DEPTH = 64
"""Levels of arrays and objects in one value, the outermost included."""

_INTEGERS = range(-(2**63), 2**64)
_TOO_LARGE = 2**64
_MAX_SHOWN_NAME_CHARACTERS = 64
_KINDS = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number", type(None): "null"}


class NotJson(ValueError):
    """Not one JSON object; the text says why and repeats nothing of the value."""


def read_object(value: bytes) -> tuple[dict[str, Any], str | None]:
    """One JSON object, and the first thing in it that the contract forbids in any JSON, if the parser noticed.

    Left to `find_fault`, because only free-form fields can hold them: NaN, infinities (1e999 is one), integers beyond
    64 bits, and depth up to jiter's own limit of about 200 levels. Where a key is given twice, what is ambiguous is
    left out. Raises NotJson.
    """
    try:
        tree = jiter.from_json(value, catch_duplicate_keys=True)
    except ValueError:
        return _read_faulty(value)
    return _as_object(tree), None


def find_fault(value: Any, max_depth: int, level: int = 1) -> str | None:
    """What the contract forbids inside a JSON value, as the end of a sentence, or None.

    `max_depth`: levels of arrays and objects allowed. `level`: the one that `value` stands on.
    """
    waiting = [(value, level)]
    while waiting:
        one, depth = waiting.pop()
        if isinstance(one, dict | list):
            if depth > max_depth:
                return f"is nested deeper than {max_depth} levels"
            waiting.extend((inner, depth + 1) for inner in (one.values() if isinstance(one, dict) else one))
            if isinstance(one, dict) and not all(map(is_unicode, one)):
                return "contains a lone surrogate"
        elif isinstance(one, str):
            if not is_unicode(one):
                return "contains a lone surrogate"
        elif isinstance(one, float):
            if not math.isfinite(one):
                return "contains a number that is not finite"
        elif isinstance(one, int) and one not in _INTEGERS:
            return "contains an integer beyond 64 bits"
    return None


def is_unicode(text: str) -> bool:
    """Whether the text has a UTF-8 form: no lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown_name(name: str) -> str:
    """A field's name for a message; one that is long or does not print is described instead."""
    if len(name) <= _MAX_SHOWN_NAME_CHARACTERS and name.isprintable():
        return f"`{name}`"
    return f"(a name of {len(name)} characters)"


def _as_object(tree: Any) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise NotJson(f"the value is {_KINDS[type(tree)]}, not a JSON object")
    return tree


def _read_faulty(value: bytes) -> tuple[dict[str, Any], str | None]:
    text = _decode(value)
    duplicates: list[str] = []
    ambiguous: set[str] = set()

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        ambiguous.clear()  # objects are built from the inside out: what remains is the outermost object's
        built = dict(pairs)
        if len(built) < len(pairs):
            ambiguous.update(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
            duplicates.append(next(name for name, _ in pairs if name in ambiguous))
        return built

    try:
        tree = _as_object(json.loads(text, object_pairs_hook=build, parse_int=_bounded_int))
    except json.JSONDecodeError as error:
        raise NotJson(f"invalid JSON at character {error.pos}: {error.msg}") from None
    except RecursionError:
        return {}, f"the value is nested deeper than {MAX_DEPTH} levels"
    if duplicates:
        for name in ambiguous | {"metadata"}:  # whose meaning may be ambiguous further in
            tree.pop(name, None)
        return tree, f"the key {shown_name(duplicates[0])} is given twice"
    for name, field in tree.items():
        if not is_unicode(name):
            return tree, "the name of a field contains a lone surrogate"
        problem = find_fault(field, MAX_DEPTH, level=2)
        if problem:
            return tree, f"{shown_name(name)} {problem}"
    raise NotJson("invalid JSON")


def _decode(value: bytes) -> str:
    if not value:
        raise NotJson("the value is empty")
    if value[0] == 0:
        raise NotJson(
            "the value starts with byte 0x00, as the Confluent wire format of Schema Registry serialisers does: "
            "send the JSON alone, without magic byte and schema id"
        )
    if value.startswith(b"\xef\xbb\xbf"):
        raise NotJson("the value starts with a byte order mark: send UTF-8 without it")
    if value.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise NotJson("the value is UTF-16: send UTF-8")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise NotJson(f"the value is not UTF-8 at byte {error.start}") from None


def _bounded_int(digits: str) -> int:
    # Python refuses to convert thousands of digits, and any integer of more than 20 characters is too large anyway.
    return int(digits) if len(digits) <= len(str(_TOO_LARGE)) else _TOO_LARGE
