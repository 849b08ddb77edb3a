"""A pipelined connection to the Redis server, and its errors."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_kafka_sink.broker.storage.state_lock import StateLock
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.optional_dependencies import install_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.broker.redis.location import RedisLocation


RedisValue: TypeAlias = bytes | str | int
Command: TypeAlias = tuple[RedisValue, ...]
_LOG = logging.getLogger(__name__)
_RUN_ID = re.compile(rb"run_id:(\w+)")
_PAUSE_S = 0.5
"""Seconds after a timeout during which commands fail immediately."""


class RedisFailedError(OSError):
    """Redis cannot be reached, does not reply in time, or rejects a command."""


class ClaimError(RedisFailedError):
    """The broker cannot claim the prefix: another one uses it, or a command is not allowed."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class ChangedDataError(RedisFailedError):
    """The data was deleted, or a different broker has written to it."""


class RedisConnection:
    """A connection to Redis, which is opened on first use and reopened after a failure.

    Only one thread uses the connection. It releases the lock on the cluster's state while it waits
    for replies. Failed commands are not retried, because the caller decides about retries.

    Raises:
        ConfigError: redis-py is not installed, or does not accept the URL.
    """

    def __init__(self, location: RedisLocation, lock: StateLock | None = None) -> None:
        self._lock = lock or StateLock()
        self._address = location.address
        self.server: bytes | None = None
        """The run id of the server at the last connect, after all checks."""
        self._paused_until = 0.0
        self._is_open = self._is_failing = self._has_logged_change = False
        self._connection, self._errors = _new_connection(location)

    def call(self, *words: RedisValue) -> Any:
        """Return the reply to one command.

        Raises:
            RedisFailedError: Redis did not reply, or replied with an error.
        """
        (reply,) = self.pipeline([words])
        if isinstance(reply, Exception):
            raise RedisFailedError(f"{self._address}: {reply}") from reply
        return reply

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands together and return their replies, which are error objects on failure.

        Raises:
            RedisFailedError: not all replies were received.
        """
        if time.monotonic() < self._paused_until:
            raise RedisFailedError(f"{self._address} timed out less than {_PAUSE_S} s ago")
        timeout, failure = self._errors.TimeoutError, self._errors.RedisError
        try:
            with self._lock.released():
                self._connect()
                replies = self._exchange_checked(commands)
        except timeout as error:
            self._disconnect()
            self._paused_until = time.monotonic() + _PAUSE_S
            raise self._log_failure("timed out") from error
        except (ClaimError, ChangedDataError) as error:
            self._disconnect()
            if isinstance(error, ChangedDataError) and not self._has_logged_change:
                self._has_logged_change = True
                self._is_failing = False
            self._warn_first(str(error))
            raise
        except (failure, OSError, UnicodeError) as error:
            self._disconnect()
            raise self._log_failure(f"cannot be used: {error}") from error
        return replies

    def transaction(self, commands: Sequence[Command]) -> list[Any]:
        """Execute commands atomically (MULTI, EXEC) and return their replies.

        Raises:
            RedisFailedError: not all replies were received, or Redis did not apply the commands.
        """
        replies = self.pipeline([("MULTI",), *commands, ("EXEC",)])
        done = replies[-1]
        if isinstance(done, list):
            self._is_failing = False
            return done
        reason = next((reply for reply in replies if isinstance(reply, Exception)), done)
        raise self._log_failure(f"rejected a transaction: {reason}")

    def close(self) -> None:
        """Close the connection."""
        self._disconnect()

    def _connect(self) -> None:
        """Connect if necessary."""
        if self._is_open:
            return
        self._connection.connect()
        (server,) = self._exchange_allowed([("INFO", "server")])
        self._check_opened()
        self.server = info_value(server, _RUN_ID)
        self._is_open = True

    def _check_opened(self) -> None:
        """Check a new connection before its first command."""

    def _exchange_checked(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands and return their replies."""
        return self._exchange(commands)

    def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        self._connection.send_packed_command([b"".join(self._connection.pack_commands(commands))])
        return [self._read_reply() for _ in commands]

    def _read_reply(self) -> Any:
        try:
            return self._connection.read_response(disable_decoding=True)
        except self._errors.ResponseError as error:
            return error

    def _exchange_allowed(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands that detect other brokers and promoted replicas.

        Raises:
            ClaimError: Redis rejected an INFO or CLIENT command.
        """
        replies = self._exchange(commands)
        for words, reply in zip(commands, replies, strict=True):
            # A journal that is not a hash is reported when it is loaded.
            if words[0] != "HGET" and isinstance(reply, self._errors.ResponseError):
                command = " ".join(map(str, words[:2]))
                raise ClaimError(
                    f"{self._address} rejects {command}, which the broker requires: {reply}",
                    hint="Allow the Redis user to run INFO, and CLIENT SETNAME, ID, LIST and KILL.",
                )
        return replies

    def _disconnect(self) -> None:
        self._is_open = False
        self._connection.disconnect()

    def _log_failure(self, reason: str) -> RedisFailedError:
        """Return an error for a failure. Of consecutive failures, only the first is logged."""
        self._warn_first(f"{self._address} {reason}")
        return RedisFailedError(f"{self._address} {reason}")

    def _warn_first(self, text: str) -> None:
        if not self._is_failing:
            _LOG.warning("%s", text)
        self._is_failing = True


def info_value(reply: bytes, pattern: re.Pattern[bytes]) -> bytes | None:
    """Return the value that the pattern matches in the reply to INFO, or None."""
    match = pattern.search(reply)
    return match and match[1]


def _new_connection(location: RedisLocation) -> tuple[Any, Any]:
    """Return an unopened redis-py connection, and redis-py's exceptions module."""
    try:
        import redis
        from redis import exceptions
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise ConfigError(
            "storage in Redis requires the Python package redis",
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
            f"redis-py cannot use the storage URL of {location.address}",
            hint="Use the form redis://host:port/db?prefix=name.",
        ) from error


def check_replies(replies: list[Any]) -> list[Any]:
    """Return the replies to commands; raise RedisFailedError if one is an error."""
    for reply in replies:
        if isinstance(reply, Exception):
            raise RedisFailedError(f"Redis rejected a command: {reply}")
    return replies
