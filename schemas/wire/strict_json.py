"""JSON as the contract wants it: UTF-8, no duplicate keys, no NaN, 64-bit integers, real Unicode, bounded depth.

jiter is the only parser most requests ever see. It says little about what it refuses, and nothing of the rest of the
object. So that is read once more by the standard library, which accepts duplicate keys, lone surrogates, integers of
any size and deeper nesting, and a part of any depth is cut out before: then the fault can be named and the request's id
be read.
"""

import json
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import jiter

from schemas.wire import other_formats
from schemas.wire.deep_json import CutOff, flattened
from schemas.wire.exact_numbers import exact_number

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
        what = f"the value is {_KINDS[type(tree)]}, not a JSON object"
        held = other_formats.named_json(tree)
        raise NotJson(f"{what}: {held}" if held else what)
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

    parse = partial(json.loads, object_pairs_hook=build, parse_int=_bounded_int, parse_float=exact_number)
    tree = _as_object(_parsed(text, parse))
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


def _parsed(text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except json.JSONDecodeError as error:
        raise NotJson(_no_json(text, error)) from None
    except RecursionError:
        pass
    try:
        return parse(flattened(text, parse))
    except json.JSONDecodeError as error:
        raise NotJson(f"invalid JSON, and nested deeper than {MAX_DEPTH} levels: {error.msg}") from None
    except CutOff:
        raise NotJson("invalid JSON: an array or an object is not closed") from None


def _decode(value: bytes) -> str:
    if name := other_formats.named_bytes(value):
        raise NotJson(name)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise NotJson(other_formats.not_utf8(value, error.start)) from None


def _no_json(text: str, error: json.JSONDecodeError) -> str:
    several = error.msg == "Extra data" and other_formats.several_objects(text[: error.pos], text[error.pos :])
    named = several or other_formats.named_text(text)
    return named or f"invalid JSON at character {error.pos}: {error.msg}"


def _bounded_int(digits: str) -> int:
    # Python refuses to convert thousands of digits, and any integer of more than 20 characters is too large anyway.
    return int(digits) if len(digits) <= len(str(_TOO_LARGE)) else _TOO_LARGE
