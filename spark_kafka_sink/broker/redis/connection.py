"""One connection to Redis: commands go out together, their replies come back in order."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_kafka_sink.broker.state_lock import StateLock
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.extras import install_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.broker.redis.location import RedisLocation

RedisValue: TypeAlias = bytes | str | int
Command: TypeAlias = tuple[RedisValue, ...]

LOG = logging.getLogger(__name__)
REST_SECONDS = 0.5
"""After a timeout, commands fail at once for so long."""


class RedisFailedError(OSError):
    """Redis can't be reached, does not answer in time, or refuses a command."""


class RedisConnection:
    """Sends commands over one connection, made when it is needed and again after a failure.

    It is used by one thread, which lets go of the lock on the cluster's state while it waits for
    replies. Commands are never repeated: the caller decides.

    Raises:
        ConfigError: redis-py is not installed, or it can't use the URL.
    """

    __slots__ = ("_address", "_connection", "_errors", "_is_failing", "_lock", "_resting_until")

    def __init__(self, location: RedisLocation, lock: StateLock | None = None) -> None:
        self._lock = lock or StateLock()
        self._address = location.address
        self._resting_until = 0.0
        self._is_failing = False
        self._connection, self._errors = _prepare(location)

    def call(self, *words: RedisValue) -> Any:
        """One command's reply.

        Raises:
            RedisFailedError: there is none, or it is an error.
        """
        (reply,) = self.pipeline([words])
        if isinstance(reply, Exception):
            raise RedisFailedError(f"{self._address}: {reply}") from reply
        return reply

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to commands that are sent together; an error is in its command's place.

        Raises:
            RedisFailedError: not all replies came.
        """
        if time.monotonic() < self._resting_until:
            raise RedisFailedError(f"{self._address} did not answer in time a moment ago")
        timeout, failure = self._errors.TimeoutError, self._errors.RedisError
        try:
            with self._lock.released():
                self._connection.send_packed_command(
                    [b"".join(self._connection.pack_commands(commands))]
                )
                replies = [self._reply() for _ in commands]
        except timeout as error:
            self._connection.disconnect()
            self._resting_until = time.monotonic() + REST_SECONDS
            raise self._failed("does not answer in time") from error
        except (failure, OSError) as error:
            self._connection.disconnect()
            raise self._failed(f"can't be used: {error}") from error
        return replies

    def _failed(self, why: str) -> RedisFailedError:
        """Log the first failure in a row: clients are told a code alone, and come again soon."""
        if not self._is_failing:
            LOG.warning("%s %s", self._address, why)
        self._is_failing = True
        return RedisFailedError(f"{self._address} {why}")

    def transaction(self, commands: Sequence[Command]) -> list[Any]:
        """The same, but all commands are applied at once or none is (MULTI, EXEC).

        Raises:
            RedisFailedError: also where Redis refused to apply any.
        """
        replies = self.pipeline([("MULTI",), *commands, ("EXEC",)])
        done = replies[-1]
        if isinstance(done, list):
            self._is_failing = False
            return done
        why = next((one for one in replies if isinstance(one, Exception)), done)
        raise self._failed(f"refused: {why}")

    def _reply(self) -> Any:
        try:
            return self._connection.read_response(disable_decoding=True)
        except self._errors.ResponseError as error:
            return error

    def close(self) -> None:
        """End the connection."""
        self._connection.disconnect()


def _prepare(location: RedisLocation) -> tuple[Any, Any]:
    """A connection of redis-py that is not open yet, and its errors."""
    try:
        import redis
        from redis import exceptions
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise ConfigError(
            "the storage in Redis needs the Python package redis",
            hint=f"Install it with: {install_command('redis')}.",
        ) from error
    seconds = location.timeout_ms / 1000
    settings = {
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
    }
    try:
        pool = redis.ConnectionPool.from_url(location.url, **settings)
        return pool.make_connection(), exceptions
    except (ValueError, TypeError, exceptions.RedisError) as error:
        raise ConfigError(
            f"redis-py can't use the storage URL of {location.address}",
            hint="Its form is redis://host:port/db?prefix=name",
        ) from error
