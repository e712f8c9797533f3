"""Options that several commands share. The environment names are the worker's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from producer_tools.connections.kafka import Brokers
    from producer_tools.connections.redis import RedisServer

BootstrapServers = Annotated[
    str,
    typer.Option(envvar="SCORESTREAM_KAFKA__BOOTSTRAP_SERVERS", help="Kafka brokers, host:port, comma-separated."),
]
RequestTopic = Annotated[str, typer.Option(envvar="SCORESTREAM_KAFKA__REQUEST_TOPIC", help="Topic of the requests.")]
ResultTopic = Annotated[str, typer.Option(envvar="SCORESTREAM_KAFKA__RESULT_TOPIC", help="Topic of the results.")]
DeadLetterTopic = Annotated[
    str, typer.Option(envvar="SCORESTREAM_KAFKA__DEAD_LETTER_TOPIC", help="Topic of the dead letters.")
]
RedisUrl = Annotated[
    str,
    typer.Option(
        envvar="SCORESTREAM_REDIS__URL",
        help="redis://, rediss://, unix://, redis+sentinel:// or redis+cluster:// URL.",
        show_envvar=True,
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
REDIS_URL = "redis://127.0.0.1:6379/0"
REDIS_PREFIX = "score:"
TTL_SECONDS = 3600


def brokers(bootstrap_servers: str) -> Brokers:
    """With the encryption and the credentials that the worker's own settings name in the environment.

    Raises typer.BadParameter.
    """
    from producer_tools.connections.environment import kafka_security  # noqa: PLC0415 - keeps `--help` light
    from producer_tools.connections.kafka import Brokers  # noqa: PLC0415 - keeps `--help` light

    try:
        return Brokers(bootstrap_servers, kafka_security())
    except ValueError as invalid:
        raise typer.BadParameter(str(invalid)) from None


def redis_server(url: str) -> RedisServer:
    """As `brokers`. Raises typer.BadParameter."""
    from producer_tools.connections.environment import redis_security  # noqa: PLC0415 - keeps `--help` light
    from producer_tools.connections.redis import RedisServer  # noqa: PLC0415 - keeps `--help` light

    try:
        return RedisServer(url, redis_security())
    except ValueError as invalid:
        raise typer.BadParameter(str(invalid)) from None
