"""Names in the environment that are meant as settings and are not read as such; pydantic-settings says nothing of them.

Not every one is a mistake: for a service that is called scorestream, or scorestream-kafka, Kubernetes sets
SCORESTREAM_PORT, SCORESTREAM_KAFKA_SERVICE_HOST and the like in every pod of the namespace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from producer_tools.connections.problems import Problem, meant_by, open_names, section_names, setting_names

PREFIX = "SCORESTREAM_"
"""Of every setting's name in the environment."""
_OF_SERVICES = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_VALUE_OF_SERVICES = re.compile(r"(tcp|udp|sctp)://.*")


def misspelt(environment: Mapping[str, str], model: type[BaseModel]) -> list[Problem]:
    """Names that can mean nothing but one setting, and miss underscores."""
    right = {_joined(name): _variable(name) for name in setting_names(model)}
    problems = []
    for variable, path in _ours(environment):
        meant = right.get(_joined(".".join(path)))
        if meant is not None and meant != variable.upper():
            problems.append(
                _problem(variable, "it is not read", f"write {meant}, with two underscores below a section")
            )
    return problems


def of_no_section(environment: Mapping[str, str], model: type[BaseModel]) -> list[Problem]:
    """Names in the form of a setting whose section there is not."""
    names = list(setting_names(model))
    return [
        _problem(variable, f"there is no section {path[0]}", _fix(path, names, model))
        for variable, path in _ours(environment)
        if len(path) > 1 and path[0] not in model.model_fields
    ]


def no_objects(environment: Mapping[str, str], model: type[BaseModel]) -> list[Problem]:
    """Sections, and settings below which anything may stand, whose value is no JSON object."""
    objects = {_variable(name): name for name in (*section_names(model), *open_names(model))}
    problems = []
    for variable, value in environment.items():
        name = objects.get(variable.upper())
        if name is None or _VALUE_OF_SERVICES.fullmatch(value):
            continue
        try:
            usable = isinstance(json.loads(value), dict)
        except ValueError:
            usable = False
        if not usable:
            fix = f'write {variable}__NAME=VALUE for each that stands in it, or {{"NAME": "VALUE"}}'
            problems.append(_problem(variable, f"{name} holds others, and its value is no JSON object", fix))
    return problems


def unread(environment: Mapping[str, str], model: type[BaseModel], own: tuple[str, ...]) -> list[Problem]:
    """Names that begin as settings do and are none. `own`: others that have a meaning."""
    names = list(setting_names(model))
    return [
        _problem(variable, "it is not read: there is no such setting", _fix(path, names, model))
        for variable, path in _ours(environment)
        if len(path) == 1
        and path[0] not in model.model_fields
        and variable.upper() not in own
        and not _OF_SERVICES.fullmatch(variable.upper())
    ]


def _ours(environment: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Each name that begins as settings do, as it is written, and its path."""
    for variable, value in environment.items():
        name = variable.upper()
        if name.startswith(PREFIX) and not _VALUE_OF_SERVICES.fullmatch(value):
            yield variable, name.removeprefix(PREFIX).lower().split("__")


def _fix(path: list[str], names: list[str], model: type[BaseModel]) -> str:
    meant = meant_by(path, names)
    return f"did you mean {_variable(meant)}?" if meant else f"the sections are {', '.join(model.model_fields)}"


def _problem(variable: str, found: str, fix: str) -> Problem:
    return Problem(variable, found, fix, f"{variable}: {found}: {fix}")


def _joined(name: str) -> str:
    return "_".join(part for part in re.split(r"[._]+", name.lower()) if part)


def _variable(name: str) -> str:
    return f"{PREFIX}{name.replace('.', '__').upper()}"
