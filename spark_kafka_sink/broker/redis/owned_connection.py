"""A connection whose broker owns the data of a prefix exclusively."""

from __future__ import annotations

import json
import re
import secrets
import time
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from spark_kafka_sink.broker.redis.connection import (
    ChangedDataError,
    ClaimError,
    RedisConnection,
    RedisFailedError,
    info_value,
)
from spark_kafka_sink.broker.redis.entries import id_parts, last_id_parts
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_kafka_sink.broker.redis.connection import Command
    from spark_kafka_sink.broker.redis.location import RedisLocation
    from spark_kafka_sink.broker.storage.state_lock import StateLock

JournalChanges: TypeAlias = "Callable[[Mapping[bytes, bytes]], list[Command]]"
"""Function that returns the commands that update the given journal fields to current values."""
OWNER_FIELD = '["owner"]'
"""Journal field that contains the name of the broker that last used the journal."""
_NAME = "kafkaprod-broker"
_CLAIM_INTERVAL_S = 0.02
"""Seconds between two attempts to claim the data."""
_REPLICATION: Command = ("INFO", "replication")
_REPLICATION_ID = re.compile(rb"master_replid:(\w+)")


class OwnedConnection(RedisConnection):
    """A connection that no other broker with the same prefix can use at the same time.

    A claimed connection has the broker's name in Redis (CLIENT SETNAME). While an older connection
    has the name of a different broker with the same prefix, no commands are sent. A starting broker
    is also rejected if the connection of the journal's owner is younger. Like a file lock, a name
    is released when its process exits.

    When the broker owns the journal, its name is also stored in the journal. If the name is
    missing, writes are not acknowledged, because the data no longer matches the broker's state: it
    was flushed, evicted, not persisted by Redis, or written by a different broker. The same applies
    if Redis has lost batches, or their deletion, when the connection is reopened.
    """

    def __init__(self, location: RedisLocation, lock: StateLock) -> None:
        super().__init__(location, lock)
        self._location = location
        self._name: str | None = None
        self._journal: str | None = None
        """The key of the journal; None until this broker owns it."""
        self._changes: JournalChanges = lambda _: []
        self.newest: dict[str, bytes] = {}
        """Last id that each stream is known to have reached, by key."""
        self._replication_id: bytes | None = None

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
        self._journal = journal
        load()
        self._changes = changes

    def _check_opened(self) -> None:
        """Check that no other broker uses the prefix.

        Raises:
            ClaimError: a different broker uses the prefix.
            ChangedDataError: this broker no longer owns the data.
        """
        if self._name is None:
            return
        replication, _, own_id, clients, owner = self._exchange_allowed(
            [
                _REPLICATION,
                ("CLIENT", "SETNAME", self._name),
                ("CLIENT", "ID"),
                ("CLIENT", "LIST"),
                ("HGET", self._location.journal, OWNER_FIELD),
            ]
        )
        self._replication_id = info_value(replication, _REPLICATION_ID)
        text = clients.decode(errors="replace")
        stored = owner if self._journal is None else None
        former = _check_alone(self._location, self._name, own_id, text, stored)
        # Otherwise, Redis might still apply a change that was sent on a previous connection.
        # KILL with the own id has no effect, but shows whether the command is allowed.
        ids = (*former, own_id)
        self._exchange_allowed([("CLIENT", "KILL", "ID", client_id) for client_id in ids])
        if self._journal is not None:
            self._correct_journal(self._journal)

    def _exchange_checked(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands, then check that this broker still owns the journal.

        A primary that becomes a replica keeps its connections, but loads the state of another
        server. It gets a new replication id.

        Raises:
            ChangedDataError: this broker no longer owns the journal.
            RedisError: Redis rejected the check.
            OSError: the replication id has changed.
        """
        if self._journal is None:
            return super()._exchange_checked(commands)
        checks: list[Command] = [("HGET", self._journal, OWNER_FIELD), _REPLICATION]
        *replies, owner, replication = self._exchange([*commands, *checks])
        for reply in (owner, replication):
            if isinstance(reply, Exception):
                raise reply
        if owner != _owner_value(self._name):
            raise ChangedDataError(
                f"the data with the prefix {self._location.prefix!r} of {self._address} was "
                "deleted, or another broker has used it. Restart the broker"
            )
        if info_value(replication, _REPLICATION_ID) != self._replication_id:
            raise OSError("it may have loaded the state of another server")
        return replies

    def _correct_journal(self, journal: str) -> None:
        """Update the journal in Redis to the state of this broker.

        Redis might have applied a change whose reply was lost, or loaded an older state after a
        restart. If the states do not differ, nothing is written: a full Redis rejects writes,
        although its records can still be read and deleted.

        Raises:
            ChangedDataError: this broker no longer owns the journal, or Redis has lost data.
            RedisFailedError: Redis rejected the changes.
        """
        _, flat = self._exchange_checked([("WATCH", journal), ("HGETALL", journal)])
        changes = self._changes(dict(zip(flat[::2], flat[1::2], strict=True)))
        self._check_streams()
        if not changes:
            self._exchange([("UNWATCH",)])
        elif not isinstance(done := self._exchange([("MULTI",), *changes, ("EXEC",)])[-1], list):
            raise RedisFailedError(f"{self._address} rejected a write to the journal: {done}")

    def _check_streams(self) -> None:
        """Check that Redis still has the last changes. Deleted entries do not matter.

        Raises:
            ChangedDataError: Redis has lost changes, for example because it has restarted.
        """
        replies = self._exchange([("XINFO", "STREAM", key) for key in self.newest])
        for (key, newest), reply in zip(self.newest.items(), replies, strict=True):
            if isinstance(reply, Exception) and "no such key" not in str(reply):
                raise reply
            if isinstance(reply, Exception) or last_id_parts(reply) < id_parts(newest):
                raise ChangedDataError(
                    f"Redis has loaded an older state, without the last changes of {key}. "
                    "Restart the broker to continue with the older state"
                )


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
    same = (client["id"] for client in listed if client["name"] == name)
    return [client_id for client_id in same if client_id != str(own_id)]
