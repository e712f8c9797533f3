"""What Kubernetes itself defines, for the schema of the values: a misspelt field is refused, not dropped.

The definitions are Kubernetes's own, as the package `kubernetes-validate` carries them, of the newest release that it
has: fields are added between releases and hardly ever removed.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

RELEASE = "1.37.0"
KEY = "x-kubernetes"
"""In a value's schema: the kind whose definition stands in its place."""
_NOISE = ("description", "$schema")


def definitions(kinds: set[str]) -> dict[str, Any]:
    """JSON Schema of these kinds, and of all that they refer to, by the names that `reference` gives."""
    known = _all()
    wanted = {_full_name(kind): kind for kind in kinds}
    found: dict[str, Any] = {}
    waiting = sorted(wanted)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _cleaned(known[name])
            waiting += sorted(_referred(found[name]))
    # A pod's fields that the user adds stand beside the containers that the chart makes.
    if "PodSpec" in kinds:
        del found[_full_name("PodSpec")]["required"]
    return found


def reference(kind: str) -> dict[str, str]:
    """The schema of one object of this kind."""
    return {"$ref": f"#/definitions/{_full_name(kind)}"}


@cache
def _all() -> dict[str, Any]:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{RELEASE}-local-strict"
    known: dict[str, Any] = json.loads((folder / "_definitions.json").read_text())["$defs"]
    return known


def _full_name(kind: str) -> str:
    """Kinds of the core and of networking: those that values pass on."""
    (name,) = (name for api in ("core", "networking") if (name := f"io.k8s.api.{api}.v1.{kind}") in _all())
    return name


def _cleaned(node: Any) -> Any:
    """Without texts, and with references to where these definitions stand in the chart's schema."""
    if isinstance(node, list):
        return [_cleaned(child) for child in node]
    if not isinstance(node, dict):
        return node
    kept = {
        key: _cleaned(value)
        for key, value in node.items()
        if not (key in _NOISE and isinstance(value, str)) and not key.startswith("x-kubernetes")
    }
    if isinstance(kept.get("$ref"), str):
        kept["$ref"] = f"#/definitions/{kept['$ref'].rsplit('/', 1)[-1]}"
    return kept


def _referred(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(_referred, node)) if node else set()
    if not isinstance(node, dict):
        return set()
    here = {node["$ref"].rsplit("/", 1)[-1]} if isinstance(node.get("$ref"), str) else set()
    return here.union(*map(_referred, node.values()))
