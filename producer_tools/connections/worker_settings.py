"""What the worker's settings say of the servers, read from where the worker reads them.

The environment, as SCORESTREAM_KAFKA__SECURITY__PROTOCOL, goes before the YAML file that SCORESTREAM_CONFIG names.
"""

from __future__ import annotations

import os

from pydantic import ConfigDict, ValidationError
from pydantic_settings import SettingsConfigDict

from producer_tools.connections.environment import PREFIX, misspelt, no_objects
from producer_tools.connections.problems import problems_of
from producer_tools.connections.settings import KafkaSecurity, RedisSecurity, Section
from producer_tools.connections.settings_file import FileSettings
from producer_tools.connections.values import Addresses


class _Kafka(Section):
    model_config = ConfigDict(extra="ignore")

    bootstrap_servers: Addresses | None = None
    request_topic: str | None = None
    result_topic: str | None = None
    dead_letter_topic: str | None = None
    group_id: str | None = None
    security: KafkaSecurity = KafkaSecurity()


class _Redis(Section):
    model_config = ConfigDict(extra="ignore")

    url: str | None = None
    prefix: str | None = None
    ttl_seconds: int | None = None
    security: RedisSecurity = RedisSecurity()


class _WorkerSettings(FileSettings):
    """What the tools need of them; the rest is not looked at."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="ignore")

    kafka: _Kafka = _Kafka()
    redis: _Redis = _Redis()


def kafka_security() -> KafkaSecurity:
    """Raises ValueError, one line per problem, with no secret in it."""
    return _read().kafka.security


def redis_security() -> RedisSecurity:
    """Raises ValueError, one line per problem, with no secret in it."""
    return _read().redis.security


def places() -> dict[str, str | int]:
    """Where the worker reads and writes, by the tools' own names for it; only what is set.

    Raises ValueError, one line per problem, with no secret in it.
    """
    settings = _read()
    kafka = settings.kafka.model_dump(exclude={"security"}, exclude_none=True)
    redis = settings.redis.model_dump(exclude={"security"}, exclude_none=True)
    if "url" in redis:
        redis["redis_url"] = redis.pop("url")
    return kafka | redis


def _read() -> _WorkerSettings:
    if problems := misspelt(os.environ, _WorkerSettings) or no_objects(os.environ, _WorkerSettings):
        raise ValueError("\n".join(line for *_, line in problems))
    try:
        return _WorkerSettings()
    except ValidationError as invalid:
        raise ValueError("\n".join(line for *_, line in problems_of(invalid, _WorkerSettings))) from None
