"""Every value set installed, upgraded and removed on a real API server, by Helm 3 and by Helm 4: `make test-chart`.

Not collected by `make test`: the API server takes minutes to build, once. Continuous integration runs both.
"""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from scripts.chart.schema import CHART
from scripts.go_build import program
from scripts.helm import helm
from tests.chart.rendering import VALUE_SETS
from tests.services.kubernetes import ApiServer, ControlPlane

MINIMAL = CHART / "ci" / "minimal-values.yaml"
HELMS = {"helm-3": lambda: program("helm3"), "helm-4": helm}
RELEASE = "ranking"


@pytest_asyncio.fixture(scope="session")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ApiServer]:
    """One for all: each test has its own namespace."""
    plane = ControlPlane(tmp_path_factory.mktemp("kubernetes"))
    await plane.start()
    yield plane.api
    await plane.stop()


class Releases:
    """One Helm, one namespace."""

    def __init__(self, api: ApiServer, binary: Path, namespace: str, home: Path) -> None:
        self.namespace = namespace
        self._api, self._binary = api, binary
        self._environment = {**os.environ, "KUBECONFIG": str(api.kubeconfig), "HOME": str(home)}

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [self._binary, *arguments, "--namespace", self.namespace]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)

    def apply(self, *values: Path, settings: tuple[str, ...] = ()) -> None:
        """Install or upgrade; a warning of the API server is a failure, too."""
        arguments: list[str | Path] = ["upgrade", "--install", "--create-namespace", RELEASE, CHART]
        for file in values:
            arguments += ["--values", file]
        ran = self.run(*arguments, *(f"--set={each}" for each in settings))
        assert ran.returncode == 0, ran.stderr
        assert "warning" not in ran.stderr.lower(), ran.stderr

    def objects(self) -> list[dict[str, Any]]:
        """As Helm remembers them."""
        ran = self.run("get", "manifest", RELEASE)
        assert ran.returncode == 0, ran.stderr
        return [each for each in yaml.safe_load_all(ran.stdout) if each]

    def missing(self, objects: list[dict[str, Any]]) -> list[tuple[str, str]]:
        """Kind and name of those that are not there."""
        return [
            (each["kind"], each["metadata"]["name"]) for each in objects if self._api.find(each, self.namespace) is None
        ]

    def deployment(self) -> dict[str, Any]:
        (thing,) = (each for each in self.objects() if each["kind"] == "Deployment")
        found = self._api.find(thing, self.namespace)
        assert found is not None
        return found


@pytest.fixture(params=HELMS)
def releases(request: pytest.FixtureRequest, api: ApiServer, tmp_path: Path) -> Releases:
    namespace = f"test-{abs(hash(request.node.nodeid)):x}"[:40]
    return Releases(api, HELMS[request.param](), namespace, tmp_path)


@pytest.mark.parametrize("values", VALUE_SETS, ids=lambda file: file.name)
def test_a_value_set_is_installed_upgraded_and_removed(releases: Releases, values: Path) -> None:
    releases.apply(values)
    objects = releases.objects()
    assert not releases.missing(objects)
    before = releases.deployment()

    releases.apply(values)
    assert releases.deployment()["metadata"]["generation"] == before["metadata"]["generation"], "nothing had changed"

    releases.apply(values, settings=("config.kafka.group_id=other",))
    assert releases.deployment()["metadata"]["generation"] == before["metadata"]["generation"] + 1
    assert not releases.missing(releases.objects())

    assert releases.run("uninstall", RELEASE).returncode == 0
    kept = [each for each in objects if "helm.sh/resource-policy" in each["metadata"].get("annotations", {})]
    gone = [each for each in objects if each not in kept]
    assert len(releases.missing(gone)) == len(gone)
    assert not releases.missing(kept), "downloaded models outlive a release"
    releases.apply(values)
    assert not releases.missing(objects), "and the next one takes them over"


def test_what_an_upgrade_leaves_out_is_removed_and_a_rollback_brings_it_back(releases: Releases) -> None:
    releases.apply(CHART / "ci" / "everything-values.yaml", settings=("modelCache.type=emptyDir",))
    everything = releases.objects()
    releases.apply(MINIMAL)
    kinds = {kind for kind, _ in releases.missing(everything)}
    assert {"ScaledObject", "PodMonitor", "PrometheusRule", "NetworkPolicy"} <= kinds
    rolled = releases.run("rollback", RELEASE, "1")
    assert rolled.returncode == 0, rolled.stderr
    assert not releases.missing(everything)


def test_an_autoscalers_number_of_pods_survives_an_upgrade(releases: Releases, api: ApiServer) -> None:
    values = CHART / "ci" / "hpa-values.yaml"
    releases.apply(values)
    scale = f"/apis/apps/v1/namespaces/{releases.namespace}/deployments/{RELEASE}-scorestream/scale"
    now = api.ask("GET", scale)
    now["spec"]["replicas"] = 7
    api.ask("PUT", scale, yaml.safe_dump(now))
    releases.apply(values, settings=("config.kafka.group_id=other",))
    assert releases.deployment()["spec"]["replicas"] == 7


def test_values_that_cannot_work_change_nothing(releases: Releases) -> None:
    releases.apply(MINIMAL)
    before = releases.deployment()
    refused = releases.run("upgrade", RELEASE, CHART, "--values", MINIMAL, "--set=terminationGracePeriodSeconds=5")
    assert refused.returncode != 0
    assert "terminationGracePeriodSeconds is 5" in refused.stderr
    assert releases.deployment()["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
