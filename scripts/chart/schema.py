"""values.schema.json: the chart's values, with the worker's own settings under `config`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from consumer.settings import Settings
from scripts.chart import kubernetes
from scripts.chart.values import Values

CHART = Path(__file__).resolve().parent.parent.parent / "helm" / "scorestream"
ALERTS = CHART / "files" / "alerts.yaml"
_NOISE = ("title", "default", "writeOnly")
"""Titles repeat the names; Helm takes defaults from values.yaml, and the settings' from the worker."""

_YAML_WORDS = {"on": True, "off": False}
"""What Helm reads where somebody writes these words without quotes; a template turns them back."""


def schema() -> dict[str, Any]:
    """JSON Schema of draft 7, the newest that every Helm 3 understands."""
    values = Values.model_json_schema(by_alias=True)
    settings = Settings.model_json_schema()
    definitions = {**_prefixed(values.pop("$defs"), ""), **_prefixed(settings.pop("$defs"), "Settings.")}
    _refer(settings, "Settings.")
    _refer(values, "")
    values["properties"]["config"] = settings
    # Helm gives every chart `global`, for those who use this one as a dependency.
    values["properties"]["global"] = {"type": "object"}
    _name_keys(definitions["ExistingSecretsValues"]["properties"]["settings"], secret_settings())
    _name_keys(definitions["PrometheusRuleValues"]["properties"]["alerts"], yaml.safe_load(ALERTS.read_text()))
    _require_all(Values, values, definitions)
    document = {"$schema": "http://json-schema.org/draft-07/schema#", **values, "definitions": definitions}
    cleaned: dict[str, Any] = _cleaned(document)
    cleaned["definitions"] |= kubernetes.definitions(_kinds_put_in(cleaned))
    return cleaned


def _kinds_put_in(node: Any) -> set[str]:
    """Put a reference wherever a value is one of Kubernetes's own kinds; returns the kinds."""
    if isinstance(node, list):
        return set().union(*map(_kinds_put_in, node)) if node else set()
    if not isinstance(node, dict):
        return set()
    if kind := node.pop(kubernetes.KEY, None):
        node.update(kubernetes.reference(kind))
        return {kind}
    return set().union(*map(_kinds_put_in, node.values())) if node else set()


def _name_keys(mapping: dict[str, Any], names: Iterable[str]) -> None:
    """Let a mapping have these keys alone. Of `propertyNames` Helm's validator would report a wrong place."""
    mapping["properties"] = dict.fromkeys(names, mapping["additionalProperties"])
    mapping["additionalProperties"] = False


def _require_all(model: type[BaseModel], described: dict[str, Any], definitions: dict[str, Any]) -> None:
    """A value set to null is taken away by Helm; templates need those that have a default other than null."""
    described["required"] = [
        field.alias or name for name, field in model.model_fields.items() if field.get_default() is not None
    ]
    for field in model.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            _require_all(field.annotation, definitions[field.annotation.__name__], definitions)


def secret_settings() -> list[str]:
    """Paths of the settings that are secret."""
    return sorted(_secret_paths(Settings, ""))


def _secret_paths(model: type[BaseModel], path: str) -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found += _secret_paths(field.annotation, f"{path}{name}.")
        elif "SecretStr" in str(field.annotation):
            found.append(f"{path}{name}")
    return found


def _prefixed(definitions: dict[str, Any], prefix: str) -> dict[str, Any]:
    for definition in definitions.values():
        _refer(definition, prefix)
    return {f"{prefix}{name}": definition for name, definition in definitions.items()}


def _refer(node: Any, prefix: str) -> None:
    """Point every reference below `node` to the prefixed definitions."""
    if isinstance(node, dict):
        if "$ref" in node:
            node["$ref"] = node["$ref"].replace("#/$defs/", f"#/definitions/{prefix}")
        for child in node.values():
            _refer(child, prefix)
    elif isinstance(node, list):
        for child in node:
            _refer(child, prefix)


def _cleaned(node: Any, *, names: bool = False) -> Any:
    """Without noise, and with `type: [T, null]` for optional values, whose refusals are easier to read.

    The keys of `properties` and `definitions` are names, of which one may be `title`.
    """
    if isinstance(node, list):
        return [_cleaned(child) for child in node]
    if not isinstance(node, dict):
        return node
    kept = {
        key: _cleaned(value, names=key in ("properties", "definitions"))
        for key, value in node.items()
        if names or key not in _NOISE
    }
    match kept.get("anyOf"):
        case [{"type": str(kind), **rest}, {"type": "null"}] if "enum" not in rest:
            del kept["anyOf"]
            return {"type": [kind, "null"], **rest, **kept}
    if kept.get("format") == "password":
        del kept["format"]
    if said := [is_ for word, is_ in _YAML_WORDS.items() if word in kept.get("enum", ())]:
        kept |= {"enum": [*kept["enum"], *said], "type": [kept["type"], "boolean"]}
    return kept
