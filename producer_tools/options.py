"""Options that several commands share; what is not given is as the worker's environment and file say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from producer_tools.console import bad_parameter

if TYPE_CHECKING:
    from producer_tools.connections.kafka import Brokers
    from producer_tools.connections.redis import RedisServer


def _read_config(context: typer.Context, file: Path | None) -> None:
    """What stands in the worker's file becomes the default of the options that mean the same."""
    if file is None:
        return
    from producer_tools.connections.settings_file import CONFIG_VARIABLE  # noqa: PLC0415 - keeps `--help` light
    from producer_tools.connections.worker_settings import places  # noqa: PLC0415 - keeps `--help` light

    # Where every reader of the settings looks, workers that a tool starts among them.
    os.environ[CONFIG_VARIABLE] = str(file)
    try:
        context.default_map = places()
    except ValueError as invalid:
        raise bad_parameter(invalid) from None


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="YAML file of the worker's settings.",
        exists=True,
        dir_okay=False,
        envvar="SCORESTREAM_CONFIG",
        callback=_read_config,
        is_eager=True,
    ),
]
"""Read before the others, whose defaults it changes; so the commands have no use for its value."""
BootstrapServers = Annotated[
    str,
    typer.Option(envvar="SCORESTREAM_KAFKA__BOOTSTRAP_SERVERS", help="Kafka brokers, host:port, comma-separated."),
]
RequestTopic = Annotated[str, typer.Option(envvar="SCORESTREAM_KAFKA__REQUEST_TOPIC", help="Topic of the requests.")]
ResultTopic = Annotated[str, typer.Option(envvar="SCORESTREAM_KAFKA__RESULT_TOPIC", help="Topic of the results.")]
DeadLetterTopic = Annotated[
    str, typer.Option(envvar="SCORESTREAM_KAFKA__DEAD_LETTER_TOPIC", help="Topic of the dead letters.")
]
REDIS_URL = "redis://127.0.0.1:6379/0"
RedisUrl = Annotated[
    str,
    typer.Option(
        envvar="SCORESTREAM_REDIS__URL",
        help="redis://, rediss://, unix://, redis+sentinel:// or redis+cluster:// URL.",
        show_envvar=True,
        # Said here, because the default is the worker's file's where there is one, with its password.
        show_default=f"{REDIS_URL}, or as --config says",
    ),
]
RedisPrefix = Annotated[
    str, typer.Option("--prefix", envvar="SCORESTREAM_REDIS__PREFIX", help="Key prefix of the results in Redis.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines for programs.")]
Timeout = Annotated[float, typer.Option(min=0.0, help="How long --wait waits, in seconds.")]
TtlSeconds = Annotated[
    int,
    typer.Option(min=1, envvar="SCORESTREAM_REDIS__TTL_SECONDS", help="Of results whose request names none."),
]

BOOTSTRAP_SERVERS = "127.0.0.1:9092"
REQUEST_TOPIC = "score.requests"
RESULT_TOPIC = "score.results"
DEAD_LETTER_TOPIC = "score.dead"
REDIS_PREFIX = "score:"
TTL_SECONDS = 3600


def brokers(bootstrap_servers: str) -> Brokers:
    """With the encryption and the credentials that the worker's own settings name.

    Raises typer.BadParameter.
    """
    from producer_tools.connections.kafka import Brokers  # noqa: PLC0415 - keeps `--help` light
    from producer_tools.connections.values import address_list  # noqa: PLC0415 - keeps `--help` light
    from producer_tools.connections.worker_settings import kafka_security  # noqa: PLC0415 - keeps `--help` light

    try:
        addresses = address_list(bootstrap_servers)
    except ValueError as invalid:
        raise bad_parameter(invalid, "--bootstrap-servers") from None
    try:
        return Brokers(addresses, kafka_security())
    except ValueError as invalid:
        raise bad_parameter(invalid) from None


def redis_server(url: str) -> RedisServer:
    """As `brokers`. Raises typer.BadParameter."""
    from producer_tools.connections.redis import RedisServer  # noqa: PLC0415 - keeps `--help` light
    from producer_tools.connections.worker_settings import redis_security  # noqa: PLC0415 - keeps `--help` light

    try:
        return RedisServer(url, redis_security())
    except ValueError as invalid:
        raise bad_parameter(invalid) from None
