"""Get Apache Kafka once and keep it outside the checkout.

`KAFKA_HOME`, when set, is used as it is. Otherwise Kafka is fetched into the cache folder: by Maven where there is one,
else as the official release archive, whose SHA-512 is compared with the one published by Apache for this release.
Either way the folder has the official names: `bin/kafka-server-start.sh`, `bin/kafka-storage.sh` and so on.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from scripts.cache import cache_folder, only_one

VERSION = "4.3.1"
ARCHIVE = f"kafka_2.13-{VERSION}.tgz"
RELEASE_URLS = (
    f"https://dlcdn.apache.org/kafka/{VERSION}/{ARCHIVE}",
    # The download network keeps current releases only, the archive keeps all of them.
    f"https://archive.apache.org/dist/kafka/{VERSION}/{ARCHIVE}",
)
RELEASE_SHA512 = (
    "c7d7b2318cb51aa0c61d3246a51c349210073c5c9b754947ef965a439f2f939e"
    "8600f204e134a75ac31faf3829c9370960ef7c6a9886c8a1dbf0339a21f4c54c"
)
POM = Path(__file__).with_name("kafka-pom.xml")
MAVEN_TIMEOUT_SECONDS = 900

_TOOLS = "org.apache.kafka.tools"
COMMANDS = {
    "kafka-acls.sh": f"{_TOOLS}.AclCommand",
    "kafka-broker-api-versions.sh": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-client-metrics.sh": f"{_TOOLS}.ClientMetricsCommand",
    "kafka-cluster.sh": f"{_TOOLS}.ClusterTool",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-consumer.sh": f"{_TOOLS}.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": f"{_TOOLS}.ConsoleProducer",
    "kafka-console-share-consumer.sh": f"{_TOOLS}.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups.sh": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test.sh": f"{_TOOLS}.ConsumerPerformance",
    "kafka-delegation-tokens.sh": f"{_TOOLS}.DelegationTokenCommand",
    "kafka-delete-records.sh": f"{_TOOLS}.DeleteRecordsCommand",
    "kafka-dump-log.sh": f"{_TOOLS}.DumpLogSegments",
    "kafka-e2e-latency.sh": f"{_TOOLS}.EndToEndLatency",
    "kafka-features.sh": f"{_TOOLS}.FeatureCommand",
    "kafka-get-offsets.sh": f"{_TOOLS}.GetOffsetShell",
    "kafka-groups.sh": f"{_TOOLS}.GroupsCommand",
    "kafka-jmx.sh": f"{_TOOLS}.JmxTool",
    "kafka-leader-election.sh": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-log-dirs.sh": f"{_TOOLS}.LogDirsCommand",
    "kafka-metadata-quorum.sh": f"{_TOOLS}.MetadataQuorumCommand",
    "kafka-producer-perf-test.sh": f"{_TOOLS}.ProducerPerformance",
    "kafka-reassign-partitions.sh": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification.sh": f"{_TOOLS}.ReplicaVerificationTool",
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-share-groups.sh": f"{_TOOLS}.consumer.group.ShareGroupCommand",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-streams-application-reset.sh": f"{_TOOLS}.StreamsResetter",
    "kafka-streams-groups.sh": f"{_TOOLS}.streams.StreamsGroupCommand",
    "kafka-topics.sh": f"{_TOOLS}.TopicCommand",
    "kafka-transactions.sh": f"{_TOOLS}.TransactionsCommand",
    "kafka-verifiable-consumer.sh": f"{_TOOLS}.VerifiableConsumer",
    "kafka-verifiable-producer.sh": f"{_TOOLS}.VerifiableProducer",
}
"""Script of the official distribution -> the class it runs; all whose classes are among the jars of kafka-pom.xml."""

RUN_CLASS = """\
#!/usr/bin/env bash
# Runs one class of this Kafka: kafka-run-class.sh CLASS [ARGUMENTS]
set -euo pipefail
home=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" ${KAFKA_HEAP_OPTS:--Xmx512m} \\
  ${KAFKA_JVM_PERFORMANCE_OPTS:--XX:+UseSerialGC} -Djava.awt.headless=true \\
  -Dlog4j2.configurationFile="$home/config/log4j2.properties" ${KAFKA_OPTS:-} -cp "$home/libs/*" "$@"
"""
COMMAND = """\
#!/usr/bin/env bash
exec "$(dirname "${{BASH_SOURCE[0]}}")/kafka-run-class.sh" {java_class} "$@"
"""
LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.broker.name = kafka
logger.broker.level = info
"""

FETCH_FAILURES = (OSError, http.client.HTTPException, RuntimeError, subprocess.SubprocessError, tarfile.TarError)


def kafka_home() -> Path:
    """The folder of an Apache Kafka distribution; fetched when there is none yet.

    Raises RuntimeError with the reason of every way that was tried and what to do.
    """
    named = os.environ.get("KAFKA_HOME")
    if named:
        if not is_distribution(Path(named)):
            raise RuntimeError(
                f"KAFKA_HOME is {named}: it has no bin/kafka-server-start.sh; name a Kafka {VERSION} folder"
            )
        return Path(named).resolve()
    target = cache_folder() / f"kafka-{VERSION}"
    with only_one(target.with_name(f"{target.name}.lock")):
        if not is_distribution(target):
            fetch(target)
        elif missing_scripts(target):
            # Laid out by an earlier version of this module, which knew fewer; a release archive has them all.
            write_layout(target)
    return target


def is_distribution(folder: Path) -> bool:
    """Whether `folder` has the scripts that start a broker."""
    return all((folder / "bin" / name).is_file() for name in ("kafka-server-start.sh", "kafka-storage.sh"))


def missing_scripts(folder: Path) -> list[str]:
    """Those of COMMANDS that are not there."""
    return [name for name in COMMANDS if not (folder / "bin" / name).is_file()]


def fetch(target: Path) -> None:
    """Fill `target` by the first way that works; it appears complete or not at all."""
    reasons = []
    for name, way in (("Maven", fetch_by_maven), ("the release archive", fetch_release)):
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            try:
                way(Path(work) / "kafka")
            except FETCH_FAILURES as failed:
                reasons.append(f"{name}: {failed}")
                continue
            shutil.rmtree(target, ignore_errors=True)
            (Path(work) / "kafka").rename(target)
            return
    raise RuntimeError(
        "\n  ".join([f"no Apache Kafka {VERSION}: unpack one and set KAFKA_HOME to its folder. Tried:", *reasons])
    )


def fetch_by_maven(target: Path) -> None:
    """Copy the release's jars from Maven's repository and write the scripts that run them."""
    maven = shutil.which("mvn")
    if not maven:
        raise RuntimeError("there is no mvn on the PATH")
    _say(f"fetching Apache Kafka {VERSION} by Maven (54 MB)")
    command = [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    copied = subprocess.run(
        [*command, f"-DoutputDirectory={target / 'libs'}"],
        capture_output=True,
        text=True,
        timeout=MAVEN_TIMEOUT_SECONDS,
        check=False,
    )
    if copied.returncode != 0:
        raise RuntimeError(next((line for line in copied.stdout.splitlines() if "ERROR" in line), "mvn failed"))
    write_layout(target)


def write_layout(target: Path) -> None:
    """Give a folder of jars the official scripts' names; in place of older ones, which may be running."""
    (target / "config").mkdir(exist_ok=True)
    (target / "config" / "log4j2.properties").write_text(LOGGING)
    scripts = {name: COMMAND.format(java_class=java_class) for name, java_class in COMMANDS.items()}
    scripts["kafka-run-class.sh"] = RUN_CLASS
    (target / "bin").mkdir(exist_ok=True)
    for name, content in scripts.items():
        script = target / "bin" / f"{name}.new"
        script.write_text(content)
        script.chmod(0o755)
        script.rename(target / "bin" / name)


def fetch_release(target: Path, urls: Sequence[str] = RELEASE_URLS, sha512: str = RELEASE_SHA512) -> None:
    """Download the release archive from the first address that has it, verify, unpack.

    Raises RuntimeError when no address gave the published bytes.
    """
    archive = target.with_name(ARCHIVE)
    reasons = []
    for url in urls:
        _say(f"fetching {url}")
        try:
            actual = download(url, archive)
        except (OSError, http.client.HTTPException) as failed:
            reasons.append(f"{url}: {failed}")
            continue
        if actual == sha512:
            break
        reasons.append(f"{url}: its SHA-512 is {actual[:16]}..., published is {sha512[:16]}...")
    else:
        raise RuntimeError("; ".join(reasons))
    with tarfile.open(archive) as packed:
        # The filter is missing on Python 3.11 before 3.11.4; the bytes are verified either way.
        packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
        packed.extractall(target.with_name("unpacked"))  # noqa: S202
    (unpacked,) = target.with_name("unpacked").iterdir()
    unpacked.rename(target)


def _say(progress: str) -> None:
    """To stderr: stdout is for what was asked."""
    print(f"kafka: {progress}", file=sys.stderr, flush=True)


def download(url: str, file: Path) -> str:
    """Store what `url` answers; returns its SHA-512 in hexadecimal."""
    digest = hashlib.sha512()
    with urllib.request.urlopen(url, timeout=60) as answer, file.open("wb") as stored:
        while block := answer.read(1 << 20):
            digest.update(block)
            stored.write(block)
    return digest.hexdigest()
