"""What the exceptions of Redis's client mean to the worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import DataError, RedisError

from consumer.errors import DependencyUnavailable, SettingsInvalid
from consumer.sections import RedisSettings
from producer_tools.connections.redis_refusal import not_let_in, words_of


@contextmanager
def mapped_errors(settings: RedisSettings) -> Iterator[None]:
    """Raises DependencyUnavailable for what may pass, SettingsInvalid for credentials that cannot change."""
    try:
        yield
    except DataError:
        raise  # Arguments that no Redis takes: a bug, not an outage.
    except TimeoutError as error:
        raise DependencyUnavailable("redis", f"no answer in {settings.timeout_seconds:g} s") from error
    except (RedisError, OSError) as error:
        if not not_let_in(error):
            raise DependencyUnavailable("redis", words_of(error) or repr(error)) from error
        if settings.security.password_file is not None:
            # The file may get the new one any moment.
            raise DependencyUnavailable("redis", f"refuses its user or password ({words_of(error)})") from error
        raise SettingsInvalid(
            f"redis.url: Redis refuses its user or password ({words_of(error)}): set the present ones"
        ) from error
