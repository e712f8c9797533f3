"""Values that cannot work are refused before anything is installed, and the refusal says what to do instead."""

from typing import Any

import pytest

from scripts.chart.schema import CHART
from tests.chart.rendering import Refused, render

MINIMAL = CHART / "ci" / "minimal-values.yaml"
KEDA = {"mode": "keda", "recordsPerSecondPerWorker": 100}

BROKEN: list[tuple[dict[str, Any], str]] = [
    # What is missing
    ({"image": {"repository": ""}}, "image.repository is empty: build the Dockerfile, push the image"),
    ({"config": {"kafka": {"bootstrap_servers": ""}}}, "config.kafka.bootstrap_servers is empty: set host:port"),
    (
        {"image": {"repository": "registry.example/scorestream:1"}},
        "leave its tag out and set image.tag, or image.digest",
    ),
    ({"config": {"engine": {"model": ""}}}, "config.engine.model is empty: set a Hugging Face name"),
    ({"config": {"redis": {"url": ""}}}, "redis.url is nowhere: set config.redis.url, or existingSecrets"),
    # Settings that do not exist, or are something else
    (
        {"config": {"kafka": {"bootstrap_server": "kafka:9092"}}},
        "/config/kafka': additional properties 'bootstrap_server'",
    ),
    ({"config": {"kafak": {}}}, "/config': additional properties 'kafak' not allowed"),
    ({"config": {"engine": {"max_num_seqs": "many"}}}, "/config/engine/max_num_seqs': got string, want integer"),
    ({"config": {"engine": {"max_num_seqs": 0}}}, "/config/engine/max_num_seqs': exclusiveMinimum: got 0, want 0"),
    ({"config": {"redis": {"mode": "optional"}}}, "value must be one of 'required', 'best_effort'"),
    ({"config": {"limits": {"lane_memory_share": 1.5}}}, "/config/limits/lane_memory_share': maximum: got 1.5, want 1"),
    # Values that do not exist, or are something else
    ({"replicas": 3}, "additional properties 'replicas' not allowed"),
    ({"image": {"pullPolicy": "Sometimes"}}, "value must be one of 'IfNotPresent', 'Always', 'Never'"),
    ({"image": {"digest": "latest"}}, "/image/digest': 'latest' does not match pattern"),
    ({"replicaCount": 0}, "/replicaCount': exclusiveMinimum"),
    (
        {"metrics": {"prometheusRule": {"alerts": {"ScoresLate": {}}}}},
        "/metrics/prometheusRule/alerts': additional properties 'ScoresLate' not allowed",
    ),
    (
        {"existingSecrets": {"settings": {"redis.ulr": {"name": "a", "key": "b"}}}},
        "/existingSecrets/settings': additional properties 'redis.ulr' not allowed",
    ),
    ({"existingSecrets": {"settings": {"redis.url": {"name": "a"}}}}, "missing property 'key'"),
    ({"metrics": None}, "missing property 'metrics'"),
    ({"probes": {"liveness": None}}, "/probes': missing property 'liveness'"),
    # What Kubernetes or Prometheus would not take, or take for something else
    (
        {"image": {"repository": "https://registry.example/s"}},
        "write registry/path, in lower case and without https://",
    ),
    ({"image": {"tag": "a:b"}}, "/image/tag': 'a:b' does not match pattern"),
    ({"resources": {"limits": {"memory": "16GB"}}}, "/resources/limits/memory': '16GB' does not match pattern"),
    ({"modelCache": {"size": "50 Gi"}}, "/modelCache/size': '50 Gi' does not match pattern"),
    ({"commonLabels": {"team": "search and ads"}}, "/commonLabels/team': 'search and ads' does not match pattern"),
    ({"fullnameOverride": "My_Ranking"}, "/fullnameOverride': 'My_Ranking' does not match pattern"),
    ({"tracing": {"endpoint": "collector:4318"}}, "/tracing/endpoint': 'collector:4318' does not match pattern"),
    ({"metrics": {"selector": '{job="a"}'}}, "/metrics/selector': '{job=\"a\"}' does not match pattern"),
    ({"gpu": {"resourceName": "gpu"}}, "/gpu/resourceName': 'gpu' does not match pattern"),
    # Kubernetes's own fields, misspelt
    ({"podSecurityContext": {"runAsUsr": 1}}, "/podSecurityContext': additional properties 'runAsUsr' not allowed"),
    ({"containerSecurityContext": {"capabilities": {"dorp": []}}}, "additional properties 'dorp' not allowed"),
    ({"tolerations": [{"key": "gpu", "opertor": "Exists"}]}, "/tolerations/0': additional properties 'opertor' not"),
    ({"affinity": {"nodeAfinity": {}}}, "/affinity': additional properties 'nodeAfinity' not allowed"),
    ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "/topologySpreadConstraints/0': missing properties"),
    ({"lifecycle": {"preStop": {"exce": {}}}}, "/lifecycle/preStop': additional properties 'exce' not allowed"),
    ({"extraVolumes": [{"name": "x", "confgMap": {}}]}, "/extraVolumes/0': additional properties 'confgMap' not"),
    ({"extraContainers": [{"name": "x", "imge": "y"}]}, "/extraContainers/0': additional properties 'imge' not"),
    ({"extraPodSpec": {"hostAlias": []}}, "/extraPodSpec': additional properties 'hostAlias' not allowed"),
    ({"networkPolicy": {"metricsFrom": [{"podSelecto": {}}]}}, "additional properties 'podSelecto' not allowed"),
    # What would be there twice, or for nothing
    ({"extraEnv": [{"name": "HF_HOME", "value": "/x"}]}, "the variable HF_HOME would be there twice: remove it from"),
    ({"existingSecrets": {"files": [{"name": "a"}, {"name": "a"}]}}, "the volume secret-a would be there twice: name"),
    (
        {"extraVolumes": [{"name": "x"}], "extraVolumeMounts": [{"name": "x", "mountPath": "/tmp"}]},
        "the mount /tmp would be there twice: choose another mountPath",
    ),
    ({"extraVolumeMounts": [{"name": "x", "mountPath": "/x"}]}, "extraVolumeMounts has x and there is no such volume"),
    ({"extraContainers": [{"name": "worker", "image": "x"}]}, "extraContainers has a container worker: give it a name"),
    # Secrets where others can read them
    (
        {"config": {"redis": {"url": "rediss://worker:hunter2@redis:6379/0"}}},
        "config.redis.url holds a password, which everyone who may read ConfigMaps could read: put the URL",
    ),
    (
        {"config": {"redis": {"url": "redis+sentinel://a/x/0?sentinel_password=hunter2"}}},
        "config.redis.url holds a password",
    ),
    (
        {"config": {"redis": {"url": "redis://worker:hunt/er2@redis:6379/0"}}},
        "config.redis.url holds a password",
    ),
    ({"config": {"redis": {"url": "redis://:a?b#c@redis:6379/0"}}}, "config.redis.url holds a password"),
    (
        {"existingSecrets": {"settings": {"redis.url": {"name": "a", "key": "b"}}}},
        'config.redis.url and existingSecrets.settings."redis.url" are both set: remove one of them',
    ),
    (
        {"config": {"kafka": {"security": {"password": "hunter2"}}}},
        "config.kafka.security.password is a secret, which everyone who may read ConfigMaps could read: put it into a",
    ),
    (
        {"config": {"kafka": {"security": {"ca_file": "/etc/scorestream/secrets/kafka-tls/ca.crt"}}}},
        "existingSecrets.files has no kafka-tls: add {name: kafka-tls} there",
    ),
    (
        {"config": {"kafka": {"security": {"ca_file": "/etc/ca.crt"}}}, "autoscaling": KEDA},
        "config.kafka.security.ca_file is /etc/ca.crt and autoscaling.mode is keda: mount it by existingSecrets.files",
    ),
    (
        {"config": {"kafka": {"security": {"token_provider": "msk:token"}}}, "autoscaling": KEDA},
        "token_provider is set and autoscaling.mode is keda: KEDA cannot run it; make a TriggerAuthentication",
    ),
    (
        {
            "config": {"kafka": {"security": {"password_file": "/p"}}},
            "existingSecrets": {"settings": {"kafka.security.password": {"name": "a", "key": "b"}}},
        },
        'config.kafka.security.password_file and existingSecrets.settings."kafka.security.password" are both set',
    ),
    # Settings that a pod cannot have
    (
        {"config": {"kafka": {"bootstrap_servers": "a:9092;b:9092"}}},
        "config.kafka.bootstrap_servers is a:9092;b:9092: write host:port, separated by commas",
    ),
    (
        {"config": {"redis": {"url": "redis:6379"}}},
        "config.redis.url does not begin with a scheme that the worker knows",
    ),
    ({"config": {"redis": {"prefix": ""}}}, 'config.redis.prefix is "": set one that neither begins with scorestream:'),
    ({"config": {"redis": {"prefix": "score"}}}, 'config.redis.prefix is "score": set one'),
    ({"config": {"redis": {"prefix": "scorestream:x:"}}}, 'config.redis.prefix is "scorestream:x:": set one'),
    ({"config": {"health": {"port": 0}}}, "config.health.port is 0: set a port above 1023, because the kubelet asks"),
    (
        {"config": {"health": {"port": 80}}},
        "config.health.port is 80: set a port above 1023, because the worker is not root",
    ),
    ({"config": {"health": {"host": "127.0.0.1"}}}, "config.health.host is 127.0.0.1: remove it"),
    ({"config": {"health": {"unix_socket": "/tmp/health"}}}, "config.health.unix_socket is /tmp/health: remove it"),
    ({"config": {"workers": {"count": 2}}}, "config.workers.count is 2: remove it and set workersPerGpu and gpu.count"),
    ({"config": {"workers": {"mps": "on"}}}, "config.workers.mps is on and a pod has one worker: set workersPerGpu"),
    (
        {"config": {"engine": {"args": {"tensor_parallel_size": 2}}}},
        "gpu.count is 1: set it to a multiple of config.engine.args.tensor_parallel_size x pipeline_parallel_size (2)",
    ),
    (
        {"config": {"engine": {"args": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}}}, "gpu": {"count": 2}},
        "gpu.count is 2: set it to a multiple of config.engine.args.tensor_parallel_size x pipeline_parallel_size (4)",
    ),
    ({"config": {"kafka": {"group_instance_id": "a"}}}, "config.kafka.group_instance_id is a: remove it"),
    (
        {"extraEnv": [{"name": "SCORESTREAM_HEALTH__PORT", "value": "9000"}]},
        "extraEnv SCORESTREAM_HEALTH__PORT is a setting: set config.health.port instead",
    ),
    (
        {"extraEnv": [{"name": "scorestream_health__port", "value": "9000"}]},
        "extraEnv scorestream_health__port is a setting: set config.health.port instead",
    ),
    (
        {
            "extraEnv": [
                {
                    "name": "SCORESTREAM_KAFKA__GROUP_INSTANCE_ID",
                    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                }
            ]
        },
        "extraEnv SCORESTREAM_KAFKA__GROUP_INSTANCE_ID: remove it, because the pods of a Deployment have new names",
    ),
    ({"extraEnv": [{"name": "THREADS", "value": 4}]}, "extraEnv THREADS is not text: put its value, 4, in quotes"),
    ({"extraEnv": [{"value": "4"}]}, "extraEnv has an entry without a name"),
    # Stopping
    ({"terminationGracePeriodSeconds": 30}, "terminationGracePeriodSeconds is 30: remove it or set it to at least 86"),
    (
        {"terminationGracePeriodSeconds": 90, "config": {"shutdown": {"drain_seconds": 60}}},
        "terminationGracePeriodSeconds is 90: remove it or set it to at least 116",
    ),
    # Storage and devices
    ({"modelCache": {"type": "existingClaim"}}, "modelCache.existingClaim is empty: name the PersistentVolumeClaim"),
    ({"modelCache": {"existingClaim": "models"}}, "modelCache.type is emptyDir: set modelCache.type to existingClaim"),
    (
        {"modelCache": {"type": "create", "accessModes": ["ReadWriteOnce"]}, "replicaCount": 2},
        "modelCache.accessModes is ReadWriteOnce and there may be 2 pods: set ReadWriteMany",
    ),
    ({"modelCache": {"offline": True}}, "modelCache.type is emptyDir, which begins empty: set modelCache.type"),
    (
        {"resources": {"limits": {"nvidia.com/gpu": 2}}},
        "resources.limits has nvidia.com/gpu: remove it and set gpu.count",
    ),
    ({"resources": {"claims": [{"name": "gpu"}]}}, "resources.claims is set and gpu.count is 1: set gpu.count to 0"),
    ({"extraPodSpec": {"volumes": []}}, "extraPodSpec.volumes is the chart's own: remove it, or use"),
    ({"podLabels": {"app.kubernetes.io/name": "x"}}, "podLabels.app.kubernetes.io/name is the chart's own"),
    ({"commonLabels": {"helm.sh/chart": "x"}}, "commonLabels.helm.sh/chart is the chart's own"),
    ({"extraVolumes": [{"name": "tmp", "emptyDir": {}}]}, "extraVolumes has tmp, which is the chart's own"),
    ({"podSecurityContext": {"runAsUser": 0}}, "podSecurityContext.runAsUser is 0: set another"),
    ({"containerSecurityContext": {"runAsUser": 0}}, "containerSecurityContext.runAsUser is 0: set another"),
    ({"containerSecurityContext": {"privileged": True}}, "containerSecurityContext.privileged is true: remove it"),
    (
        {"resources": {"limits": {"memory": "512Mi"}}},
        "resources.limits.memory is 512Mi, and the requests in flight alone may take 536870912 bytes",
    ),
    (
        {"resources": {"limits": {"memory": "1.5G"}}, "workersPerGpu": 3},
        "resources.limits.memory is 1.5G, and the requests in flight alone may take 1610612736 bytes",
    ),
    (
        {"gpu": {"count": 0}, "config": {"engine": {"args": {"quantization": "fp8"}}}},
        "config.engine.args.quantization is fp8 and gpu.count is 0: remove it",
    ),
    (
        {"gpu": {"count": 0}, "config": {"engine": {"args": {"kv_cache_dtype": "fp8_e5m2"}}}},
        "config.engine.args.kv_cache_dtype is fp8_e5m2 and gpu.count is 0: remove it",
    ),
    (
        {"gpu": {"count": 0}, "workersPerGpu": 2, "config": {"workers": {"mps": "on"}}},
        "config.workers.mps is on and gpu.count is 0: remove it",
    ),
    # Scaling
    ({"autoscaling": {"mode": "both"}}, "value must be one of 'none', 'keda', 'hpa'"),
    ({"autoscaling": {"mode": "keda"}}, "recordsPerSecondPerWorker is empty: measure it with `scorestream bench`"),
    ({"autoscaling": KEDA, "replicaCount": 3}, "replicaCount is 3 and autoscaling.mode is keda: remove replicaCount"),
    (
        {"autoscaling": {**KEDA, "maxReplicas": 20}, "workersPerGpu": 4},
        "autoscaling.maxReplicas is 20: set it to at most 12 (autoscaling.partitions 48 / 4 workers of a pod)",
    ),
    (
        {"autoscaling": {**KEDA, "partitions": 2}, "workersPerGpu": 4},
        "autoscaling.partitions is 2 and a pod has 4 workers, of which some would have nothing to read",
    ),
    (
        {"autoscaling": {**KEDA, "minReplicas": 5, "maxReplicas": 4}},
        "minReplicas is 5: set it to at most maxReplicas (4)",
    ),
    (
        {"autoscaling": {**KEDA, "mode": "hpa", "minReplicas": 0}},
        "minReplicas is 0 and autoscaling.mode is hpa: set at least 1",
    ),
    # Surroundings
    (
        {"metrics": {"podMonitor": {"interval": "1m", "scrapeTimeout": "1m1s"}}},
        "metrics.podMonitor.scrapeTimeout is 1m1s and the interval is 1m: set it to at most the interval",
    ),
    (
        {"networkPolicy": {"enabled": True, "hub": False}},
        "networkPolicy.hub is false and config.engine.model is BAAI/bge-reranker-base, which is downloaded",
    ),
    (
        {"updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}},
        "maxSurge and maxUnavailable are both 0: set one of them to 1",
    ),
    ({"podDisruptionBudget": {"maxUnavailable": "0%"}}, "podDisruptionBudget.maxUnavailable is 0: set at least 1"),
    (
        {"networkPolicy": {"enabled": True}, "config": {"kafka": {"bootstrap_servers": "kafka"}}},
        "networkPolicy.kafka.ports is empty and config.kafka.bootstrap_servers names no port: set one of them",
    ),
    (
        {
            "networkPolicy": {"enabled": True},
            "config": {"redis": {"url": ""}},
            "existingSecrets": {"settings": {"redis.url": {"name": "a", "key": "b"}}},
        },
        "networkPolicy.redis.ports is empty and redis.url stands in a Secret or names Sentinels: set the ports",
    ),
    (
        {"networkPolicy": {"enabled": True}, "config": {"redis": {"url": "redis+sentinel://a:26379,b:26379/scores/0"}}},
        "networkPolicy.redis.ports is empty and redis.url stands in a Secret or names Sentinels: set the ports",
    ),
]


@pytest.mark.parametrize(("values", "said"), BROKEN, ids=lambda value: value[:40] if isinstance(value, str) else "")
def test_what_cannot_work_is_refused_with_the_fix(values: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as refused:
        render(MINIMAL, values=values)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("values", "api"),
    [
        ({"autoscaling": KEDA}, "keda.sh/v1alpha1"),
        ({"metrics": {"podMonitor": {"enabled": True}}}, "monitoring.coreos.com/v1"),
        ({"metrics": {"prometheusRule": {"enabled": True}}}, "monitoring.coreos.com/v1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_object_that_the_cluster_does_not_know_is_refused(values: dict[str, Any], api: str) -> None:
    with pytest.raises(Refused) as refused:
        render(MINIMAL, values=values, apis=())
    assert f"the cluster does not know {api}: install" in str(refused.value)
    render(MINIMAL, values=values, apis=(api,))


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(Refused) as refused:
        render(values={"terminationGracePeriodSeconds": 5})
    said = str(refused.value)
    assert [line.split()[1] for line in said.splitlines() if line.startswith("- ")] == [
        "image.repository",
        "config.kafka.bootstrap_servers",
        "config.engine.model",
        "redis.url",
        "terminationGracePeriodSeconds",
    ]
