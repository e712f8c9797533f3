"""What the chart makes of values that work."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from consumer.settings import load_settings
from scripts.chart.schema import CHART
from tests.chart import custom_resources
from tests.chart.rendering import NAMESPACE, RELEASE, VALUE_SETS, one, render, run_helm

KUBERNETES = ("1.29", "1.33", "1.37")
MINIMAL = CHART / "ci" / "minimal-values.yaml"
EVERYTHING = CHART / "ci" / "everything-values.yaml"
every_set = pytest.mark.parametrize("values", VALUE_SETS, ids=lambda file: file.name)


def pod(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return one(objects, "Deployment")["spec"]["template"]["spec"]


def environment(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["name"]: each for each in pod(objects)["containers"][0]["env"]}


def worker_settings(objects: list[dict[str, Any]]) -> dict[str, Any]:
    configs = [each.get("data", {}) for each in objects if each["kind"] == "ConfigMap"]
    (text,) = (data["scorestream.yaml"] for data in configs if "scorestream.yaml" in data)
    return yaml.safe_load(text)


def differences(given: dict[str, Any], read: dict[str, Any], path: str = "") -> Iterator[str]:
    """Settings that the worker reads otherwise than they were given; secrets are masked."""
    for name, value in given.items():
        if isinstance(value, dict) and name != "args":
            yield from differences(value, read[name], f"{path}{name}.")
        elif read[name] not in (value, "**********"):
            yield f"{path}{name} is {read[name]} and not {value}"


@every_set
def test_helm_has_nothing_against_it(values: Path) -> None:
    # Helm gives its linter no way to know the APIs of a cluster, so what needs them is left out.
    without = ["metrics.podMonitor.enabled=false", "metrics.prometheusRule.enabled=false", "autoscaling.mode=none"]
    run_helm(
        "lint", "--strict", CHART, "--values", values, *(f"--set={each}" for each in without), "--set=replicaCount=1"
    )


@every_set
def test_every_object_is_what_the_api_server_expects(values: Path) -> None:
    for thing in render(values):
        if custom_resources.knows(thing):
            custom_resources.validate(thing)
        else:
            for version in KUBERNETES:
                kubernetes_validate.validate(thing, version, strict=True)


@every_set
def test_names_are_unique_and_selectors_find_the_pods(values: Path) -> None:
    objects = render(values)
    names = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(names) == len(set(names))
    labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    selectors = [each["spec"]["selector"] for each in objects if "selector" in each.get("spec", {})]
    selectors += [each["spec"]["podSelector"] for each in objects if each["kind"] == "NetworkPolicy"]
    for selector in selectors:
        assert selector["matchLabels"].items() <= labels
        assert "app.kubernetes.io/version" not in selector["matchLabels"]


@every_set
def test_the_worker_reads_the_settings_that_were_given(values: Path, tmp_path: Path, monkeypatch: Any) -> None:
    objects = render(values)
    file = tmp_path / "scorestream.yaml"
    file.write_text(yaml.safe_dump(worker_settings(objects)))
    monkeypatch.setenv("SCORESTREAM_CONFIG", str(file))
    for name, entry in environment(objects).items():
        if name.startswith("SCORESTREAM_") and "valueFrom" in entry:
            monkeypatch.setenv(name, "redis://secret:6379" if name.endswith("URL") else "secret")
    settings = load_settings().model_dump(mode="json")
    assert not list(differences(yaml.safe_load(values.read_text())["config"], settings))


@every_set
def test_nothing_secret_is_in_an_object(values: Path) -> None:
    given = yaml.safe_load(values.read_text())
    for thing in render(values):
        assert thing["kind"] != "Secret"
    for setting in given.get("existingSecrets", {}).get("settings", {}):
        section, name = setting.split(".", 1)
        assert name not in given["config"].get(section, {})


def test_the_least_values_make_a_hardened_pod() -> None:
    spec = pod(render(MINIMAL))
    worker = spec["containers"][0]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert worker["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {mount["mountPath"] for mount in worker["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/home/scorestream", "/tmp", "/dev/shm", "/var/cache/huggingface"}
    assert not any(a != b and b.startswith(f"{a}/") for a in writable for b in writable), "its parent would be root's"


def test_the_kubelet_asks_the_worker_itself_where_it_listens() -> None:
    worker = pod(render(MINIMAL, values={"config": {"health": {"port": 9090}}}))["containers"][0]
    assert worker["ports"] == [{"name": "health", "containerPort": 9090}]
    paths = {name: worker[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {
        "startupProbe": {"path": "/livez", "port": "health"},
        "livenessProbe": {"path": "/livez", "port": "health"},
        "readinessProbe": {"path": "/readyz", "port": "health"},
    }


def test_a_longer_drain_gets_a_longer_grace() -> None:
    assert pod(render(MINIMAL))["terminationGracePeriodSeconds"] == 86
    longer = render(
        MINIMAL, values={"config": {"shutdown": {"drain_seconds": 120}, "commit": {"timeout_seconds": 2.5}}}
    )
    assert pod(longer)["terminationGracePeriodSeconds"] == 175
    with_daemon = render(MINIMAL, values={"workersPerGpu": 2, "config": {"workers": {"mps": "on"}}})
    assert pod(with_daemon)["terminationGracePeriodSeconds"] == 116


def test_a_changed_setting_replaces_the_pods_and_an_upgrade_of_the_chart_alone_does_not() -> None:
    def template(values: dict[str, Any]) -> dict[str, Any]:
        return one(render(MINIMAL, values=values), "Deployment")["spec"]["template"]["metadata"]

    before, after = template({}), template({"config": {"kafka": {"group_id": "other"}}})
    assert before["labels"] == after["labels"]
    assert before["annotations"]["checksum/config"] != after["annotations"]["checksum/config"]
    assert "helm.sh/chart" not in before["labels"]


def test_gpus_are_asked_for_beside_what_the_user_asks_for() -> None:
    resources = pod(render(EVERYTHING))["containers"][0]["resources"]
    assert resources["limits"] == {"memory": "96Gi", "nvidia.com/gpu": 4}
    assert resources["requests"] == {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": 4}
    without = pod(render(MINIMAL, values={"gpu": {"count": 0}}))["containers"][0]
    assert without["resources"] == {"limits": {}, "requests": {"cpu": "2", "memory": "6656Mi"}}
    assert "CUDA_VISIBLE_DEVICES" not in environment(render(EVERYTHING)), "the worker divides its GPUs itself"


def test_what_the_scheduler_keeps_by_default_grows_with_the_workers_and_yields_to_a_limit() -> None:
    def asked(values: dict[str, Any]) -> dict[str, Any]:
        return pod(render(MINIMAL, values={"gpu": {"count": 0}, **values}))["containers"][0]["resources"]["requests"]

    assert asked({"workersPerGpu": 4}) == {"cpu": "8", "memory": "26624Mi"}
    assert asked({"config": {"limits": {"memory_bytes": 2 * 1024**3}}}) == {"cpu": "2", "memory": "8192Mi"}
    assert asked({"resources": {"requests": {"cpu": "1"}}}) == {"cpu": "1", "memory": "6656Mi"}
    # Kubernetes then takes the limit for the request; a request above it would be refused.
    assert asked({"resources": {"limits": {"memory": "4Gi"}}}) == {"cpu": "2"}


def test_pods_are_spread_over_nodes_by_default() -> None:
    (constraint,) = pod(render(MINIMAL))["topologySpreadConstraints"]
    assert (constraint["topologyKey"], constraint["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert constraint["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "worker"


def test_a_deployment_has_the_users_annotations_and_the_container_its_hooks() -> None:
    hook = {"preStop": {"exec": {"command": ["sleep", "5"]}}}
    objects = render(MINIMAL, values={"deploymentAnnotations": {"reloader": "auto"}, "lifecycle": hook})
    assert one(objects, "Deployment")["metadata"]["annotations"] == {"reloader": "auto"}
    assert pod(objects)["containers"][0]["lifecycle"] == hook


def test_the_check_of_helm_test_asks_for_resources_too() -> None:
    (check,) = (each for each in render(MINIMAL) if each["kind"] == "Pod")
    assert check["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "2Gi"}


WARNED: list[tuple[dict[str, Any], str]] = [
    ({"replicaCount": 80}, "80 workers read 48 partitions (autoscaling.partitions)"),
    ({"replicaCount": 20, "workersPerGpu": 5}, "100 workers read 48 partitions (autoscaling.partitions)"),
    ({"workersPerGpu": 4}, "4 workers share a GPU and config.engine.args.kv_cache_memory_bytes is not set"),
    ({"containerSecurityContext": {"allowPrivilegeEscalation": True}}, "allowPrivilegeEscalation is true"),
    ({"containerSecurityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, "capabilities.add is SYS_ADMIN"),
    ({"extraPodSpec": {"hostNetwork": True}}, "extraPodSpec.hostNetwork is true"),
]


def notes(values: dict[str, Any]) -> str:
    arguments = ("install", RELEASE, CHART, "--namespace", NAMESPACE, "--values", MINIMAL, "--dry-run=client")
    return run_helm(*arguments, "--values", "-", values=yaml.safe_dump(values))


@pytest.mark.parametrize(("values", "said"), WARNED, ids=lambda value: value[:40] if isinstance(value, str) else "")
def test_what_works_and_may_not_be_meant_is_said_in_the_notes(values: dict[str, Any], said: str) -> None:
    assert said in notes(values)


@pytest.mark.parametrize(
    "values",
    [
        {"replicaCount": 12, "workersPerGpu": 4, "config": {"engine": {"args": {"kv_cache_memory_bytes": 1}}}},
        {"replicaCount": 96, "autoscaling": {"partitions": 96}},
    ],
    ids=["as many as partitions", "as many as the partitions that were named"],
)
def test_the_notes_warn_of_nothing_that_is_meant(values: dict[str, Any]) -> None:
    assert "perhaps not meant" not in notes(values)


@pytest.mark.parametrize(
    ("gpus", "per_gpu", "spanned", "workers"), [(1, 1, 1, 1), (1, 4, 1, 4), (4, 2, 1, 8), (4, 1, 2, 2), (0, 3, 1, 3)]
)
def test_a_pod_has_as_many_workers_as_its_gpus_allow(gpus: int, per_gpu: int, spanned: int, workers: int) -> None:
    engine = {"args": {"tensor_parallel_size": spanned}}
    objects = render(MINIMAL, values={"gpu": {"count": gpus}, "workersPerGpu": per_gpu, "config": {"engine": engine}})
    assert worker_settings(objects)["workers"] == {"count": workers}


def test_on_and_off_need_no_quotes_in_values() -> None:
    """Helm reads them as booleans, and the worker means the words."""
    words = {"workers": {"mps": True}, "redis": {"notify": False}}
    objects = render(MINIMAL, values={"workersPerGpu": 2, "config": words})
    settings = worker_settings(objects)
    assert (settings["workers"]["mps"], settings["redis"]["notify"]) == ("on", "off")
    assert pod(objects)["terminationGracePeriodSeconds"] == 116


def test_secrets_come_as_variables_and_files_of_secrets_that_exist() -> None:
    objects = render(EVERYTHING)
    named = {
        name: entry["valueFrom"]["secretKeyRef"]
        for name, entry in environment(objects).items()
        if "secretKeyRef" in entry.get("valueFrom", {})
    }
    assert named == {
        "SCORESTREAM_REDIS__URL": {"name": "score-redis", "key": "url"},
        "HF_TOKEN": {"name": "hugging-face", "key": "token"},
    }
    mounts = {mount["mountPath"]: mount for mount in pod(objects)["containers"][0]["volumeMounts"]}
    # Without a subPath, so that the files follow when the Secret is rotated.
    assert mounts["/etc/scorestream/secrets/kafka.tls"] == {
        "name": "secret-kafka-tls",
        "mountPath": "/etc/scorestream/secrets/kafka.tls",
        "readOnly": True,
    }


def test_the_model_cache_is_where_the_hub_looks() -> None:
    objects = render(CHART / "ci" / "airgapped-values.yaml")
    (volume,) = (each for each in pod(objects)["volumes"] if each["name"] == "models")
    assert volume["persistentVolumeClaim"] == {"claimName": "models"}
    (mount,) = (each for each in pod(objects)["containers"][0]["volumeMounts"] if each["name"] == "models")
    assert mount["mountPath"] == environment(objects)["HF_HOME"]["value"]
    assert environment(objects)["HF_HUB_OFFLINE"]["value"] == "1"
    kept = one(render(EVERYTHING), "PersistentVolumeClaim")
    assert kept["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_a_network_policy_opens_what_the_settings_name() -> None:
    def ports(values: dict[str, Any]) -> list[list[int]]:
        policy = one(render(MINIMAL, values={"networkPolicy": {"enabled": True}, **values}), "NetworkPolicy")["spec"]
        assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == ["health"]
        return [[port["port"] for port in rule["ports"]] for rule in policy["egress"]]

    kafka, redis = {"bootstrap_servers": "a:9093,b:9093,c:9094"}, {"url": "rediss://redis:6380"}
    assert ports({"config": {"kafka": kafka, "redis": redis}}) == [[53, 53], [9093, 9094], [6380], [443]]
    closed = {"networkPolicy": {"enabled": True, "hub": False}, "config": {"engine": {"model": "/models/ranker"}}}
    assert ports(closed) == [[53, 53], [9092], [6379]]
    cluster = {"config": {"redis": {"url": "redis+cluster://a:7000,b:7001,c:7000"}}}
    assert ports(cluster)[2] == [7000, 7001]
    tokens = {"config": {"kafka": {"security": {"token_endpoint": "https://login.example:8443/token"}}}}
    assert ports({**tokens, "tracing": {"endpoint": "http://collector:4318"}})[4:] == [[8443], [4318]]


def test_a_node_drain_never_waits_for_a_pod_that_loads_its_model() -> None:
    budget = one(render(MINIMAL), "PodDisruptionBudget")["spec"]
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert budget["maxUnavailable"] == 1


def test_what_a_cluster_may_lack_is_off_unless_asked_for() -> None:
    assert {each["kind"] for each in render(MINIMAL, apis=())} == {
        "ConfigMap",
        "Deployment",
        "PodDisruptionBudget",
        "ServiceAccount",
        "Pod",
    }


def test_objects_of_the_users_own_may_use_the_release() -> None:
    names = [each["metadata"]["name"] for each in render(EVERYTHING)]
    assert "plugins" in names
    assert f"{RELEASE}-more" in names


def test_the_notes_name_commands_that_work_on_this_release() -> None:
    notes = run_helm("install", RELEASE, CHART, "--namespace", NAMESPACE, "--values", MINIMAL, "--dry-run=client")
    assert re.search(rf"kubectl .*--namespace {NAMESPACE} .*deployment/{RELEASE}-scorestream", notes)
    assert "--request-topic score.requests" in notes
    assert "redis-cli GET score:q1" in notes
    (publishing,) = re.findall(r"sh -c \\\n\s+'(echo .*) \\\n", notes)
    said = subprocess.run(["sh", "-c", publishing], capture_output=True, text=True, check=True).stdout
    assert json.loads(said)["task"] == "rerank"
