"""How the chart lets KEDA or Kubernetes itself choose the number of pods."""

from scripts.chart.schema import CHART
from tests.chart.rendering import one, render

MINIMAL = CHART / "ci" / "minimal-values.yaml"
EVERYTHING = CHART / "ci" / "everything-values.yaml"


def test_keda_scales_on_seconds_of_work_and_never_past_the_partitions() -> None:
    objects = render(EVERYTHING)
    assert "replicas" not in one(objects, "Deployment")["spec"], "each upgrade would undo the autoscaler's work"
    scaled = one(objects, "ScaledObject")["spec"]
    # 800 records a second and worker, 30 seconds of work, 8 workers in a pod; 48 partitions.
    assert scaled["triggers"][0]["metadata"]["lagThreshold"] == str(800 * 30 * 8)
    assert scaled["maxReplicaCount"] == 48 // 8
    assert scaled["triggers"][0]["metadata"]["consumerGroup"] == "ranking"
    assert scaled["triggers"][0]["metadata"]["offsetResetPolicy"] == "earliest"
    assert scaled["triggers"][1]["metricType"] == "Value"
    assert scaled["triggers"][1]["metadata"]["threshold"] == "30"
    # A Prometheus that is away must not start every GPU, nor a broker that is away stop them.
    assert scaled["fallback"] == {"failureThreshold": 3, "replicas": 1, "behavior": "currentReplicasIfHigher"}
    metadata = [value for trigger in scaled["triggers"] for value in trigger["metadata"].values()]
    assert all(isinstance(value, str) for value in metadata)


def test_keda_reads_kafka_with_the_workers_own_credentials() -> None:
    objects = render(CHART / "ci" / "secured-values.yaml")
    trigger = one(objects, "ScaledObject")["spec"]["triggers"][0]
    assert (trigger["metadata"]["tls"], trigger["metadata"]["sasl"]) == ("enable", "scram_sha512")
    authentication = one(objects, "TriggerAuthentication")
    assert trigger["authenticationRef"] == {"name": authentication["metadata"]["name"]}
    secrets = {each["parameter"]: (each["name"], each["key"]) for each in authentication["spec"]["secretTargetRef"]}
    assert secrets == {
        "ca": ("kafka-tls", "ca.crt"),
        "cert": ("kafka-tls", "tls.crt"),
        "key": ("kafka-tls", "tls.key"),
        "keyPassword": ("kafka-tls", "key-password"),
        "password": ("kafka-user", "password"),
    }
    (username,) = authentication["spec"]["configMapTargetRef"]
    (config,) = (each for each in objects if each["metadata"]["name"] == username["name"] and "data" in each)
    assert config["data"][username["key"]] == "worker"


def test_keda_gets_tokens_as_the_worker_does() -> None:
    security = {
        "protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "token_endpoint": "https://login.example/token",
        "token_scope": "kafka read",
        "username": "client",
        "sasl_extensions": ["logicalCluster=lkc-1"],
    }
    values = {
        "autoscaling": {"mode": "keda", "lagThreshold": 1000},
        "config": {"kafka": {"security": security}},
        "existingSecrets": {"settings": {"kafka.security.password": {"name": "client", "key": "secret"}}},
    }
    objects = render(MINIMAL, values=values)
    assert one(objects, "ScaledObject")["spec"]["triggers"][0]["metadata"]["sasl"] == "oauthbearer"
    (parameters,) = (each["data"] for each in objects if each["metadata"]["name"].endswith("-keda"))
    assert parameters == {
        "username": "client",
        "oauthTokenEndpointUri": "https://login.example/token",
        "scopes": "kafka,read",
        "oauthExtensions": "logicalCluster=lkc-1",
    }


def test_kubernetes_own_autoscaler_takes_the_same_threshold() -> None:
    objects = render(CHART / "ci" / "hpa-values.yaml")
    assert "replicas" not in one(objects, "Deployment")["spec"]
    scaler = one(objects, "HorizontalPodAutoscaler")["spec"]
    assert scaler["scaleTargetRef"]["name"] == one(objects, "Deployment")["metadata"]["name"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 12)
    assert scaler["metrics"][0]["external"]["target"] == {"type": "AverageValue", "averageValue": "20000"}
    assert not [each for each in objects if each["kind"] == "ScaledObject"]
