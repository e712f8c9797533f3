"""The chart through Helm, as an installation sees it."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from scripts.chart.schema import CHART
from scripts.helm import helm

VALUE_SETS = sorted(CHART.glob("ci/*-values.yaml"))
CUSTOM_APIS = ("keda.sh/v1alpha1", "monitoring.coreos.com/v1")
KUBERNETES = "1.33"
"""What Helm is told of the cluster: by itself it takes the version that it was built with."""
RELEASE, NAMESPACE = "ranking", "scoring"


class Refused(Exception):
    """Helm refused the values; the text is what the user reads."""


def run_helm(*arguments: str | Path, values: str = "") -> str:
    """What Helm prints on stdout, with `values` on its stdin. Raises Refused."""
    ran = subprocess.run([helm(), *arguments], input=values, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise Refused(ran.stderr + ran.stdout)
    return ran.stdout


def render(
    *value_files: Path, values: dict[str, Any] | None = None, apis: tuple[str, ...] = CUSTOM_APIS
) -> list[dict[str, Any]]:
    """All objects of a release; `values` come last. Raises Refused."""
    arguments: list[str | Path] = ["template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", KUBERNETES]
    for file in value_files:
        arguments += ["--values", file]
    for api in apis:
        arguments += ["--api-versions", api]
    rendered = run_helm(*arguments, "--values", "-", values=yaml.safe_dump(values or {}))
    return [each for each in yaml.safe_load_all(rendered) if each]


def one(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The only object of this kind."""
    (found,) = (each for each in objects if each["kind"] == kind)
    return found
