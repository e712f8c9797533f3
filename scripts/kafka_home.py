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

COMMANDS = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-dump-log.sh": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
"""Script of the official distribution -> the class it runs."""

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
    return target


def is_distribution(folder: Path) -> bool:
    """Whether `folder` has the scripts that start a broker."""
    return all((folder / "bin" / name).is_file() for name in ("kafka-server-start.sh", "kafka-storage.sh"))


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
    print(f"kafka: fetching Apache Kafka {VERSION} by Maven (54 MB)", flush=True)
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
    """Give a folder of jars the official scripts' names."""
    (target / "config").mkdir()
    (target / "config" / "log4j2.properties").write_text(LOGGING)
    scripts = {name: COMMAND.format(java_class=java_class) for name, java_class in COMMANDS.items()}
    scripts["kafka-run-class.sh"] = RUN_CLASS
    (target / "bin").mkdir()
    for name, content in scripts.items():
        script = target / "bin" / name
        script.write_text(content)
        script.chmod(0o755)


def fetch_release(target: Path, urls: Sequence[str] = RELEASE_URLS, sha512: str = RELEASE_SHA512) -> None:
    """Download the release archive from the first address that has it, verify, unpack.

    Raises RuntimeError when no address gave the published bytes.
    """
    archive = target.with_name(ARCHIVE)
    reasons = []
    for url in urls:
        print(f"kafka: fetching {url}", flush=True)
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


def download(url: str, file: Path) -> str:
    """Store what `url` answers; returns its SHA-512 in hexadecimal."""
    digest = hashlib.sha512()
    with urllib.request.urlopen(url, timeout=60) as answer, file.open("wb") as stored:
        while block := answer.read(1 << 20):
            digest.update(block)
            stored.write(block)
    return digest.hexdigest()
