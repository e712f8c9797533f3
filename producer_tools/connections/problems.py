"""What is wrong with settings, in words for people; pydantic's own are for those who write models."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from producer_tools.connections.values import Impossible

_SHOWN_CHARACTERS = 60
_LIKE, _LIKE_BESIDE = 0.75, 0.6
"""How alike a name must be to be the one that was meant, and one of the same section; difflib's measure."""
_WHOLE = ("{shown} is no whole number", "write one, in digits")
_NUMBER = ("{shown} is no number", "write one, as 12 or 0.5")
_YES_OR_NO = ("{shown} is neither true nor false", "write true or false")
_CHOICE = ("{shown} is not among its values", "write {expected}")
_TEXT = ("{shown} is no text", "write text; what looks like a number or a date in YAML needs quotes")
_LIST = ("{shown} is no list", 'write a,b or ["a","b"]')
_SECTION = ("{shown} is no section", "write the settings of the section below it, each as NAME: VALUE")
_WORDS = {
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "finite_number": ("{shown} is no finite number", "write one, as 12 or 0.5"),
    "bool_parsing": _YES_OR_NO,
    "bool_type": _YES_OR_NO,
    "enum": _CHOICE,
    "literal_error": _CHOICE,
    "greater_than": ("{shown} is too small", "write a number above {gt}"),
    "greater_than_equal": ("{shown} is too small", "write a number of at least {ge}"),
    "less_than": ("{shown} is too large", "write a number below {lt}"),
    "less_than_equal": ("{shown} is too large", "write a number of at most {le}"),
    "string_type": _TEXT,
    "string_unicode": _TEXT,
    "path_type": _TEXT,
    "string_too_short": ("it is empty", "write something, or leave it out"),
    "tuple_type": _LIST,
    "list_type": _LIST,
    "model_type": _SECTION,
    "model_attributes_type": _SECTION,
    "dict_type": _SECTION,
    "invalid_key": ("a name in it is no text", "write it in quotes"),
}
"""What was found and what to write, by pydantic's name for it."""


class Problem(NamedTuple):
    """One. `line`: all of it, for people. No part shows a secret."""

    setting: str
    found: str
    fix: str
    line: str


def problem(setting: str, found: str, fix: str) -> Problem:
    """Of one setting."""
    return Problem(setting, found, fix, f"{setting}: {found}: {fix}")


def problems_of(invalid: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Each of what pydantic found wrong with settings of `model`."""
    return [_problem_of(error, model) for error in invalid.errors(include_url=False)]


def setting_names(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Dotted names of all settings, without those of the sections themselves."""
    for name, field in model.model_fields.items():
        section = section_of(field.annotation)
        if section is None:
            yield f"{path}{name}"
        else:
            yield from setting_names(section, f"{path}{name}.")


def section_names(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Dotted names of the sections."""
    for name, field in model.model_fields.items():
        if (section := section_of(field.annotation)) is not None:
            yield f"{path}{name}"
            yield from section_names(section, f"{path}{name}.")


def open_names(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Dotted names of the settings below which anything may stand."""
    for name, field in model.model_fields.items():
        if (section := section_of(field.annotation)) is not None:
            yield from open_names(section, f"{path}{name}.")
        elif get_origin(field.annotation) is dict:
            yield f"{path}{name}"


def section_of(annotation: object) -> type[BaseModel] | None:
    """The section that a setting is, if it is one."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def unknown(path: Sequence[str], model: type[BaseModel]) -> Problem:
    """There is no such setting, and which was meant."""
    if [*path] != (shown := [shown_name(part) for part in path]):
        name = ".".join(shown)
        return problem(name, "more stands there than a name", f"write {shown[-1]}, a colon, a space and the value")
    name = ".".join(path)
    names = list(setting_names(model))
    within = model
    for part in path[:-1]:
        field = within.model_fields.get(part)
        within = (section_of(field.annotation) if field else None) or model
    if name in names:
        # A dot in one of the parts: `kafka.group_id: g` of YAML.
        return problem(name, "it is one name with a dot in it", f"nest it: `{nested(name)}`")
    meant = meant_by(path, names)
    if meant is not None:
        fix = f"did you mean {meant}?"
        if len(path) == 1:
            fix += f" In YAML it is `{nested(meant)}`"
    elif within is not model or path[0] in model.model_fields:
        own = ", ".join(within.model_fields)
        fix = f"{'.'.join(path[:-1])} has {own}"
        if "args" in within.model_fields:
            fix += f"; an argument of vLLM's is {'.'.join(path[:-1])}.args.{path[-1]}"
    else:
        fix = f"the sections are {', '.join(model.model_fields)}"
    return problem(name, "there is no such setting", fix)


def shown_name(name: str) -> str:
    """What of it can be a name; in `password:secret`, without a space, the rest is none, and secret."""
    found = re.match(r"[\w.-]*", name)
    return found[0] if found else ""


def nested(name: str) -> str:
    """How YAML has a setting of this dotted name."""
    *sections, last = name.split(".")
    return "".join(f"{section}: {{" for section in sections) + f"{last}: ..." + "}" * len(sections)


def meant_by(path: Sequence[str], names: Sequence[str]) -> str | None:
    """The name that was probably meant."""
    written = _plain(".".join(path))
    plain = {_plain(name): name for name in names}
    if written in plain:
        return plain[written]
    same_end = [name for name in names if _plain(name.rpartition(".")[2]) == _plain(path[-1])]
    if len(same_end) == 1:
        return same_end[0]
    beside = {_plain(name.rpartition(".")[2]): name for name in names if name.split(".")[:-1] == [*path[:-1]]}
    alike = difflib.get_close_matches(_plain(path[-1]), beside, n=1, cutoff=_LIKE_BESIDE)
    if alike or (beside and len(path) > 1):
        return beside[alike[0]] if alike else None
    alike = difflib.get_close_matches(written, plain, n=1, cutoff=_LIKE)
    return plain[alike[0]] if alike else None


def _plain(name: str) -> str:
    """Without what writings of one name differ in: bootstrapServers, bootstrap-servers, BOOTSTRAP_SERVERS."""
    return "".join(character for character in name.lower() if character.isalnum() or character == ".")


def _problem_of(error: ErrorDetails, model: type[BaseModel]) -> Problem:
    path = [str(part) for part in error["loc"]]
    if error["type"] == "extra_forbidden":
        return unknown(path, model)
    if error["type"] == "value_error":
        return _own_refusal(error["ctx"]["error"], ".".join(path))
    if error["input"] is None:
        return problem(".".join(path), "nothing stands there", "write its value, or leave it out")
    return problem(".".join(path), *_words(error, _shown(error["input"], path, model)))


def _own_refusal(refusal: Exception, setting: str) -> Problem:
    """What a validator of ours says; about several settings together it names them itself."""
    line = f"{setting}: {refusal}" if setting else str(refusal)
    if isinstance(refusal, Impossible):
        return Problem(setting or refusal.setting or "settings", refusal.found, refusal.fix, line)
    return Problem(setting or "settings", str(refusal), "", line)


def _shown(value: object, path: Sequence[str], model: type[BaseModel]) -> str:
    """A value that a person wrote, or its kind where it may hold a secret."""
    if not isinstance(value, Mapping | list | tuple) and not _may_be_secret(path, model):
        return f"`{value}`" if len(str(value)) <= _SHOWN_CHARACTERS else "what stands there"
    kinds = {bool: "true or false", str: "text", int: "a number", float: "a number", list: "a list", dict: "a section"}
    return kinds.get(type(value), "what stands there")


def _may_be_secret(path: Sequence[str], model: type[BaseModel]) -> bool:
    """Whether the setting is a secret, or holds others, in whose place anything may stand."""
    annotation: Any = model
    for part in path:
        section = section_of(annotation)
        field = section.model_fields.get(part) if section else None
        if field is None:
            return section is not None
        annotation = field.annotation
    of_many = section_of(annotation) is not None or get_origin(annotation) is dict
    return of_many or SecretStr in (annotation, *get_args(annotation))


def _words(error: ErrorDetails, shown: str) -> tuple[str, str]:
    """What was found, and what to write instead."""
    if error["type"] not in _WORDS:
        return error["msg"], ""
    found, fix = _WORDS[error["type"]]
    context = {name: str(value).replace("'", "") for name, value in error.get("ctx", {}).items()}
    return found.format(shown=shown), fix.format(**context)
