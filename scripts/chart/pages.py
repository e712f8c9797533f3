"""values.yaml and docs/values.md, written from the model of the values."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel

from scripts.chart.values import Values

_WIDTH = 116
VALUES_HEAD = """# The values of the chart, their defaults and their meaning.
#
# Generated from scripts/chart/values.py by `make docs`; do not edit. Write what differs into a file of your own:
#
#   helm install NAME helm/scorestream -f my-values.yaml
"""
PAGE_HEAD = """# Values of the Helm chart

Generated from `scripts/chart/values.py` by `make docs`; do not edit. How to use them: [deploy.md](deploy.md).

| value | default | meaning |
| --- | --- | --- |
"""


def values_yaml() -> str:
    """The chart's values.yaml."""
    return VALUES_HEAD + "".join(_branch(Values, 0))


def values_page() -> str:
    """docs/values.md."""
    return PAGE_HEAD + "".join(_rows(Values, ""))


def _branch(model: type[BaseModel], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, field in model.model_fields.items():
        section = _section(field.annotation)
        meaning = field.description or (section.__doc__ if section else None) or ""
        lines = textwrap.wrap(" ".join(meaning.split()), _WIDTH - len(indent))
        if depth == 0:
            yield "\n"
        yield "".join(f"{indent}# {line}\n" for line in lines)
        alias = field.alias or name
        if section:
            yield f"{indent}{alias}:\n"
            yield from _branch(section, depth + 1)
        else:
            yield textwrap.indent(yaml.safe_dump({alias: _default(field)}, sort_keys=False, width=_WIDTH), indent)


def _rows(model: type[BaseModel], path: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        alias = f"{path}{field.alias or name}"
        section = _section(field.annotation)
        if section:
            yield from _rows(section, f"{alias}.")
        else:
            meaning = " ".join((field.description or "").split()).replace("|", "\\|")
            default = _default(field)
            shown = "none" if default is None or default in ("", [], {}) else f"`{_plain(default)}`"
            yield f"| `{alias}` | {shown} | {meaning} |\n"


def _plain(default: Any) -> str:
    return default if isinstance(default, str) else json.dumps(default)


def _default(field: Any) -> Any:
    return field.get_default(call_default_factory=True)


def _section(annotation: Any) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
