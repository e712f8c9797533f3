"""A single Apache Kafka broker (KRaft) on this machine, for tests and for trying things.

    python -m scripts.kafka home      print the distribution's folder, fetched if needed
    python -m scripts.kafka env       print what a shell is to evaluate, so that it finds kafka-topics.sh and the others
    python -m scripts.kafka start [DATA_DIR PORT [KEY=VALUE ...]]
                                      run a broker in the foreground on 127.0.0.1:PORT; build/kafka and 9092 by default

PORT + 1 is the controller's. KEY=VALUE are added to the broker's properties. A second start on the same DATA_DIR is a
restart of the same broker. Ctrl-C stops it.
"""

from __future__ import annotations

import base64
import os
import shlex
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from scripts.java import java_home
from scripts.kafka_home import kafka_home

DATA, PORT = Path(__file__).resolve().parent.parent / "build" / "kafka", 9092
"""Of a start that names none."""
JVM = {
    "KAFKA_HEAP_OPTS": "-Xms256m -Xmx512m",
    # The quick compiler alone: on two cores a broker is up in half the time.
    "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
"""Names of Kafka's own scripts; the environment overrides them."""


def broker_properties(data: Path, port: int, more: Mapping[str, str]) -> dict[str, str]:
    """Properties of a broker that is its own controller; `more` wins."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data / "log"),
        # A misspelt topic must be an error, as it is in production.
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        # A killed broker may come back only when its old session has ended: 9 s by default.
        "broker.session.timeout.ms": "5000",
        "broker.heartbeat.interval.ms": "500",
        # One broker: internal topics have one copy, and few partitions, so that a start is quick.
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        **more,
    }


def environment(data: Path) -> dict[str, str]:
    """What Kafka's scripts need: a Java, a small heap, a writable folder for their own logs."""
    logs = data / "server-logs"
    return {**JVM, **os.environ, "JAVA_HOME": str(java_home()), "LOG_DIR": str(logs)}


def prepare(data: Path, port: int, more: Mapping[str, str], scram: Sequence[str] = ()) -> list[str]:
    """Write the properties, format the data folder if it is new; returns the command that runs the broker.

    `scram`: users that it knows from the beginning, as kafka-storage.sh writes them after --add-scram.
    Raises RuntimeError when there is no Kafka, no Java, or the folder cannot be formatted.
    """
    home = kafka_home()
    data.mkdir(parents=True, exist_ok=True)
    properties = data / "server.properties"
    lines = [f"{key}={value}\n" for key, value in broker_properties(data, port, more).items()]
    properties.write_text("".join(lines))
    if not (data / "log" / "meta.properties").exists():
        # Kafka's own form of an id: a UUID in 22 characters of URL-safe base64.
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [str(home / "bin" / "kafka-storage.sh"), "format", f"--cluster-id={cluster}", "-c", str(properties)]
        command += [part for user in scram for part in ("--add-scram", user)]
        formatted = subprocess.run(command, env=environment(data), capture_output=True, text=True, check=False)
        if formatted.returncode != 0:
            raise RuntimeError(f"cannot format {data}: {formatted.stdout}{formatted.stderr}")
    return [str(home / "bin" / "kafka-server-start.sh"), str(properties)]


def run(folder: Path, port: int, more: Mapping[str, str]) -> NoReturn:
    """Become the broker: signals and the exit code are its own. Raises RuntimeError as `prepare` does."""
    data = folder.resolve()
    for needed in (port, port + 1):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", needed))
            except OSError as refused:
                reason = f"127.0.0.1:{needed} cannot be had ({refused.strerror})"
                raise RuntimeError(f"{reason}: name another port") from None
    command = prepare(data, port, more)
    print(f"kafka: 127.0.0.1:{port}, data in {data}; Ctrl-C stops it", flush=True)
    os.execve(command[0], command, environment(data))  # noqa: S606


def main(arguments: list[str]) -> int:
    """Exit code 1: no Kafka, no Java or no usable folder; 2: usage."""
    try:
        match arguments:
            case ["home"]:
                print(kafka_home())
                return 0
            case ["env"]:
                print(f"export JAVA_HOME={shlex.quote(str(java_home()))}")
                print(f'export PATH={shlex.quote(str(kafka_home() / "bin"))}:"$PATH"')
                return 0
            case ["start"]:
                run(DATA, PORT, {})
            case ["start", folder, port, *pairs] if port.isdigit() and all("=" in pair for pair in pairs):
                run(Path(folder), int(port), dict(pair.split("=", 1) for pair in pairs))
    except RuntimeError as failed:
        print(f"kafka: {failed}", file=sys.stderr)
        return 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
