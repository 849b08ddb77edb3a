"""A pipelined connection to the Redis server."""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from spark_kafka_sink.broker.redis.entries import id_parts
from spark_kafka_sink.broker.storage.state_lock import StateLock
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.optional_dependencies import install_command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_kafka_sink.broker.redis.location import RedisLocation


RedisValue: TypeAlias = bytes | str | int
Command: TypeAlias = tuple[RedisValue, ...]
JournalChanges: TypeAlias = "Callable[[Mapping[bytes, bytes]], list[Command]]"
"""Function that returns the commands that update the given journal fields to current values."""
_LOG = logging.getLogger(__name__)
_NAME = "kafkaprod-broker"
_RUN_ID = re.compile(rb"run_id:(\w+)")
_REPLICATION_ID = re.compile(rb"master_replid:(\w+)")
_CLAIM_INTERVAL_S = 0.02
"""Seconds between two attempts to claim the data."""
OWNER_FIELD = '["owner"]'
"""Journal field that contains the name of the broker that last used the journal."""
WAITS_FIELD = '["waits"]'
"""Journal field with a counter, which is written before each WAIT."""
_REPLICATION: Command = ("INFO", "replication")
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

    A claimed connection has the broker's name in Redis (CLIENT SETNAME). While an older connection
    has the name of a different broker with the same prefix, no commands are sent. A starting broker
    is also rejected if the connection of the journal's owner is younger. Like a file lock, a name
    is released when its process exits.

    When the broker owns the journal, its name is also stored in the journal. If the name is
    missing, writes are not acknowledged, because the data no longer matches the broker's state: it
    was flushed, evicted, not persisted by Redis, or written by a different broker. The same applies
    if Redis has lost batches, or their deletion, when the connection is reopened.

    Raises:
        ConfigError: redis-py is not installed, or does not accept the URL.
    """

    def __init__(self, location: RedisLocation, lock: StateLock | None = None) -> None:
        self._lock = lock or StateLock()
        self._address = location.address
        self._location = location
        self._name: str | None = None
        self._owned: str | None = None
        self._changes: JournalChanges = lambda _: []
        self.newest: dict[str, bytes] = {}
        """Last id that each stream is known to have reached, by key."""
        self.server: bytes | None = None
        """The run id of the server at the last connect, after all checks."""
        self._replication_id: bytes | None = None
        self._paused_until = 0.0
        self._is_changed = self._is_failing = self._is_open = False
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

    def claim(self) -> None:
        """Check now and after each reconnect that no other broker uses the prefix.

        Raises:
            ConfigError: another broker uses the prefix.
            RedisFailedError: Redis failed.
        """
        self._name = f"{_NAME}:{quote(self._location.prefix, safe='')}:{secrets.token_hex(8)}"
        # Redis might not yet have detected that a previous broker has exited.
        deadline = time.monotonic() + self._location.timeout_ms / 1000
        self._is_failing = True  # Do not log failures, because the caller reports them.
        while True:
            try:
                self.call("PING")
            except ClaimError as error:
                if time.monotonic() > deadline:
                    raise ConfigError(str(error), hint=error.hint) from error
                time.sleep(_CLAIM_INTERVAL_S)
            else:
                break
        self._is_failing = False

    def own(self, journal: str, load: Callable[[], None], changes: JournalChanges) -> None:
        """Store the broker's name in the journal. Every later pipeline checks the name.

        Args:
            journal: the key of the journal.
            load: loads the journal. Another broker could write to it until this broker owned it.
            changes: called after each reconnect; see `JournalChanges`.

        Raises:
            RedisFailedError: Redis failed.
        """
        assert self._name is not None
        self.call("HSET", journal, OWNER_FIELD, json.dumps(self._name))
        self._owned = journal
        load()
        self._changes = changes

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
                replies = self._exchange_owned(commands)
        except timeout as error:
            self._disconnect()
            self._paused_until = time.monotonic() + _PAUSE_S
            raise self._log_failure("timed out") from error
        except (ClaimError, ChangedDataError) as error:
            self._disconnect()
            if isinstance(error, ChangedDataError) and not self._is_changed:
                self._is_changed = True
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

    def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        self._connection.send_packed_command([b"".join(self._connection.pack_commands(commands))])
        return [self._read_reply() for _ in commands]

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

    def _exchange_owned(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands, then check that this broker still owns the journal.

        A primary that becomes a replica keeps its connections, but loads the state of another
        server. It gets a new replication id.

        Raises:
            ChangedDataError: this broker no longer owns the journal.
            RedisError: Redis rejected the check.
            OSError: the replication id has changed.
        """
        if self._owned is None:
            return self._exchange(commands)
        checks: list[Command] = [("HGET", self._owned, OWNER_FIELD), _REPLICATION]
        *replies, owner, replication = self._exchange([*commands, *checks])
        for reply in (owner, replication):
            if isinstance(reply, self._errors.ResponseError):
                raise reply
        if owner != _owner_value(self._name):
            raise ChangedDataError(
                f"the data with the prefix {self._location.prefix!r} of {self._address} was "
                "deleted, or another broker has used it. Restart the broker"
            )
        if _value_in(replication, _REPLICATION_ID) != self._replication_id:
            raise OSError("it may have loaded the state of another server")
        return replies

    def _connect(self) -> None:
        """Connect if necessary, and check that no other broker uses the prefix.

        Raises:
            ClaimError: a different broker uses the prefix.
            ChangedDataError: this broker no longer owns the data.
        """
        if self._is_open:
            return
        self._connection.connect()
        server, replication = self._exchange_allowed([("INFO", "server"), _REPLICATION])
        self._replication_id = _value_in(replication, _REPLICATION_ID)
        if self._name is not None:
            _, own_id, clients, owner = self._exchange_allowed(
                [
                    ("CLIENT", "SETNAME", self._name),
                    ("CLIENT", "ID"),
                    ("CLIENT", "LIST"),
                    ("HGET", self._location.journal, OWNER_FIELD),
                ]
            )
            text = clients.decode(errors="replace")
            stored = owner if self._owned is None else None
            former = _check_alone(self._location, self._name, own_id, text, stored)
            # Otherwise, Redis might still apply a change that was sent on a previous connection.
            # KILL with the own id has no effect, but shows whether the command is allowed.
            self._exchange_allowed(
                [("CLIENT", "KILL", "ID", client_id) for client_id in (*former, own_id)]
            )
            if self._owned is not None:
                self._correct_journal(self._owned)
        self.server = _value_in(server, _RUN_ID)
        self._is_open = True

    def _check_streams(self) -> None:
        """Check that Redis still has the last changes. Deleted entries do not matter.

        Raises:
            ChangedDataError: Redis has lost changes, for example because it has restarted.
        """
        replies = self._exchange([("XINFO", "STREAM", key) for key in self.newest])
        for (key, newest), reply in zip(self.newest.items(), replies, strict=True):
            if isinstance(reply, self._errors.ResponseError) and "no such key" not in str(reply):
                raise reply
            if isinstance(reply, Exception) or id_parts(last_id(reply)) < id_parts(newest):
                raise ChangedDataError(
                    f"Redis has loaded an older state, without the last changes of {key}. "
                    "Restart the broker to continue with the older state"
                )

    def _correct_journal(self, journal: str) -> None:
        """Update the journal in Redis to the state of this broker.

        Redis might have applied a change whose reply was lost, or loaded an older state after a
        restart. If the states do not differ, nothing is written: a full Redis rejects writes,
        although its records can still be read and deleted.

        Raises:
            ChangedDataError: this broker no longer owns the journal, or Redis has lost data.
            RedisFailedError: Redis rejected the changes.
        """
        _, flat = self._exchange_owned([("WATCH", journal), ("HGETALL", journal)])
        changes = self._changes(dict(zip(flat[::2], flat[1::2], strict=True)))
        self._check_streams()
        if not changes:
            self._exchange([("UNWATCH",)])
        elif not isinstance(done := self._exchange([("MULTI",), *changes, ("EXEC",)])[-1], list):
            raise RedisFailedError(f"{self._address} rejected a write to the journal: {done}")

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

    def _read_reply(self) -> Any:
        try:
            return self._connection.read_response(disable_decoding=True)
        except self._errors.ResponseError as error:
            return error


def _value_in(reply: bytes, pattern: re.Pattern[bytes]) -> bytes | None:
    """Return the value that the pattern matches in the reply to INFO, or None."""
    match = pattern.search(reply)
    return match and match[1]


def last_id(stream_info: Sequence[Any]) -> bytes:
    """Return the id of the last entry that a stream ever had, from the reply to XINFO STREAM."""
    entry_id: bytes = dict(zip(stream_info[::2], stream_info[1::2], strict=True))[
        b"last-generated-id"
    ]
    return entry_id


def _owner_value(name: str | None) -> bytes:
    """Return the value of `OWNER_FIELD` for a broker's name."""
    return json.dumps(name).encode()


def _client_fields(line: str) -> dict[str, str]:
    """Parse a line of CLIENT LIST. Since Redis 7.2 it has `lib-name` in addition to `name`."""
    words = (word.partition("=") for word in line.split())
    return {name: value for name, _, value in words}


def _check_alone(
    location: RedisLocation, name: str, own_id: int, clients: str, owner: object
) -> list[str]:
    """Check that no older connection belongs to a different broker.

    Args:
        location: the prefix and the address for the error.
        name: this broker's name.
        own_id: id of this connection.
        clients: the reply to CLIENT LIST.
        owner: the owner in the journal, as stored. No connection may belong to it, of any age.

    Returns:
        The ids of this broker's former connections that Redis has not yet closed.

    Raises:
        ClaimError: a connection of a different broker exists.
    """
    named = name.rpartition(":")[0] + ":"
    listed = [_client_fields(line) for line in clients.splitlines()]
    own_db = next((client["db"] for client in listed if client["id"] == str(own_id)), None)
    for client in listed:
        is_named = client["name"].startswith(named) and client["name"] != name
        is_first = int(client["id"]) < own_id or _owner_value(client["name"]) == owner
        if is_named and client["db"] == own_db and is_first:
            raise ClaimError(
                f"another broker, connected from {client['addr']}, uses the prefix "
                f"{location.prefix!r} of {location.address}",
                hint="Stop that broker, or set another prefix. If its machine is lost, close its "
                f"connection: redis-cli CLIENT KILL ID {client['id']}",
            )
    return [
        client["id"] for client in listed if client["name"] == name and client["id"] != str(own_id)
    ]


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
