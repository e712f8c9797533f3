"""The sections as the worker's settings name them in the environment: SCORESTREAM_KAFKA__SECURITY__PROTOCOL."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from producer_tools.connections.settings import KafkaSecurity, RedisSecurity


class _Kafka(BaseModel):
    model_config = ConfigDict(extra="ignore")

    security: KafkaSecurity = KafkaSecurity()


class _Redis(BaseModel):
    model_config = ConfigDict(extra="ignore")

    security: RedisSecurity = RedisSecurity()


class _Environment(BaseSettings):
    """What concerns connections of the worker's settings; the rest is not looked at."""

    model_config = SettingsConfigDict(env_prefix="SCORESTREAM_", env_nested_delimiter="__", extra="ignore")

    kafka: _Kafka = _Kafka()
    redis: _Redis = _Redis()


def kafka_security() -> KafkaSecurity:
    """Raises ValueError, one line per problem, with no secret in it."""
    return _read().kafka.security


def redis_security() -> RedisSecurity:
    """Raises ValueError, one line per problem, with no secret in it."""
    return _read().redis.security


def _read() -> _Environment:
    try:
        return _Environment()
    except ValidationError as invalid:
        lines = [
            f"{'.'.join(map(str, error['loc']))}: {error['msg'].removeprefix('Value error, ')}"
            for error in invalid.errors(include_input=False, include_url=False)
        ]
        raise ValueError("\n".join(lines)) from None
    except SettingsError as unreadable:
        raise ValueError(f"{unreadable}: {unreadable.__cause__}") from None
