"""The real schemas of KEDA's and the Prometheus operator's objects, made as strict as the API server's warnings."""

from functools import cache
from typing import Any

import jsonschema
import yaml

from scripts.go_build import CUSTOM_RESOURCES, custom_resource_file


@cache
def _schemas() -> dict[tuple[str, str], dict[str, Any]]:
    """(apiVersion, kind) -> JSON Schema."""
    found = {}
    for name in CUSTOM_RESOURCES:
        spec = yaml.safe_load(custom_resource_file(name).read_text())["spec"]
        for version in spec["versions"]:
            api = f"{spec['group']}/{version['name']}"
            found[api, spec["names"]["kind"]] = _strict(version["schema"]["openAPIV3Schema"])
    return found


def _strict(node: Any) -> Any:
    """An unknown field is an error; the server only drops it, with a warning."""
    if isinstance(node, list):
        return [_strict(child) for child in node]
    if not isinstance(node, dict):
        return node
    strict = {key: _strict(value) for key, value in node.items()}
    if "(?i)" in str(node.get("pattern", "")):
        # Go reads such a pattern, Python does not.
        del strict["pattern"]
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        # Of the metadata a definition says only that it is an object.
        strict["properties"].setdefault("metadata", {"type": "object"})
        if not node.get("x-kubernetes-preserve-unknown-fields"):
            strict["additionalProperties"] = False
    if node.get("x-kubernetes-int-or-string"):
        strict["type"] = ["integer", "string"]
    return strict


def knows(thing: dict[str, Any]) -> bool:
    """Whether this is one of theirs."""
    return (thing["apiVersion"], thing["kind"]) in _schemas()


def validate(thing: dict[str, Any]) -> None:
    """Raises jsonschema.ValidationError."""
    jsonschema.validate(thing, _schemas()[thing["apiVersion"], thing["kind"]])
