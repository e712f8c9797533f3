"""What examples/ has for operators: alerts without Kubernetes, topics and rights by Strimzi."""

import re
import subprocess
from typing import Any

import yaml

from consumer.settings import Settings
from scripts.chart.schema import ALERTS, CHART
from scripts.go_build import program
from tests.chart.expressions import complaints
from tests.chart.rendering import one, render

ROOT = CHART.parent.parent
PROMETHEUS = ROOT / "examples" / "prometheus"
STRIMZI = ROOT / "examples" / "strimzi"
ACL = re.compile(r"kafka-acls\.sh .* --allow-principal User:worker (.*)")


def test_prometheus_takes_the_plain_alerts_and_they_are_the_charts() -> None:
    command = [program("promtool"), "check", "rules", PROMETHEUS / "alerts.yaml"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (group,) = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"]
    assert [rule["alert"] for rule in group["rules"]] == list(yaml.safe_load(ALERTS.read_text()))
    (scraped,) = yaml.safe_load((PROMETHEUS / "prometheus.yaml").read_text())["scrape_configs"]
    for rule in group["rules"]:
        assert complaints(rule["expr"]) == []
        selected = re.findall(r'{job="([^"]*)"', rule["expr"])
        assert selected == [scraped["job_name"]] * rule["expr"].count("{")


def test_nothing_of_a_plain_alert_needs_a_label_of_kubernetes() -> None:
    text = (PROMETHEUS / "alerts.yaml").read_text()
    rules = text.partition("groups:")[2]
    assert not re.search(r"\b(pod|namespace)\b", rules)


def strimzi() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((STRIMZI / "kafka.yaml").read_text()))


def test_strimzi_makes_the_topics_that_a_worker_reads_and_writes() -> None:
    kafka = Settings.model_fields["kafka"].get_default()
    topics = {each["metadata"]["name"]: each["spec"] for each in strimzi() if each["kind"] == "KafkaTopic"}
    assert set(topics) == {kafka.request_topic, kafka.result_topic, kafka.dead_letter_topic}
    assert topics[kafka.result_topic]["partitions"] >= topics[kafka.request_topic]["partitions"]
    assert {topic["config"]["cleanup.policy"] for topic in topics.values()} == {"delete"}


def test_strimzi_gives_the_rights_that_docs_secure_names() -> None:
    (user,) = (each for each in strimzi() if each["kind"] == "KafkaUser")
    given = {
        (operation, acl["resource"]["type"], acl["resource"]["name"])
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    }
    named = set()
    for rights in ACL.findall((ROOT / "docs" / "secure.md").read_text()):
        (kind, name) = re.findall(r"--(topic|group) (\S+)", rights)[0]
        named |= {(operation, kind, name) for operation in re.findall(r"--operation (\w+)", rights)}
    assert given == named


def test_the_chart_takes_the_values_for_strimzi() -> None:
    spec = one(render(STRIMZI / "values.yaml"), "Deployment")["spec"]["template"]["spec"]
    mounted = {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert {"/etc/scorestream/secrets/cluster-ca", "/etc/scorestream/secrets/worker"} <= mounted
