"""What a broker with its data in Redis knows besides its logs: one hash there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from spark_kafka_sink.broker.storage.journal import Journal
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.broker.redis.connection import RedisConnection
    from spark_kafka_sink.broker.redis.location import RedisLocation
    from spark_kafka_sink.broker.storage.journal import Key

FORMAT: Final = ("format", 1)
"""A hash without fields does not exist: this one shows that the prefix is a broker's."""
_SHOWN: Final = 5
_ANOTHER_PREFIX: Final = (
    "Nothing was changed. Give another prefix, as in redis://host:port/db?prefix=name, or rename "
    "or delete what is there"
)


class RedisJournal(Journal):
    """A `Journal` whose lines are fields of a hash: [kind, key…] in JSON, and the value in JSON.

    Raises:
        ConfigError: the prefix has data, but not a journal of this broker.
        OSError: Redis can't be asked.
    """

    __slots__ = ("_connection", "_hash")

    def __init__(self, connection: RedisConnection, location: RedisLocation) -> None:
        super().__init__()
        self._connection = connection
        self._hash = location.journal
        kind = connection.call("TYPE", self._hash).decode()
        if kind == "none":
            _refuse_foreign(connection, location)
            kind, value = FORMAT
            self.put(kind, (), value)
        elif kind != "hash":
            raise _not_a_journal(self._hash, f"it is a {kind}, not a hash")
        else:
            self._load()

    def _load(self) -> None:
        flat = self._connection.call("HGETALL", self._hash)
        for field, value in zip(flat[::2], flat[1::2], strict=True):
            try:
                kind, *key = json.loads(field)
                self._take(kind, tuple(key), json.loads(value))
            except (ValueError, TypeError) as error:
                raise _not_a_journal(self._hash, f"its field {field!r} can't be read") from error

    def put(self, kind: str, key: Key, value: Any) -> None:
        """See `Journal`; OSError when Redis does not take it."""
        field = json.dumps([kind, *key])
        if value is None:
            self._connection.call("HDEL", self._hash, field)
        else:
            self._connection.call("HSET", self._hash, field, json.dumps(value))
        self._take(kind, key, value)

    def close(self) -> None:
        """Nothing: the connection is not the journal's alone."""


def _refuse_foreign(connection: RedisConnection, location: RedisLocation) -> None:
    """Check that no key has the prefix, as there is no journal.

    Raises:
        ConfigError: there are some.
    """
    found: list[str] = []
    for key in _keys(connection, location.pattern):
        found.append(f"{key.decode(errors='replace')} ({connection.call('TYPE', key).decode()})")
        if len(found) > _SHOWN:
            found[-1] = "and others"
            break
    if found:
        raise ConfigError(
            f"{location.address} has keys with the prefix {location.prefix!r}, but no journal of "
            f"this broker ({location.journal}): {', '.join(found)}",
            hint=_ANOTHER_PREFIX,
        )


def _keys(connection: RedisConnection, pattern: str) -> Iterator[bytes]:
    cursor = b"0"
    while True:
        cursor, page = connection.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1_000)
        yield from page
        if cursor == b"0":
            return


def _not_a_journal(name: str, why: str) -> ConfigError:
    return ConfigError(
        f"the key {name} was not written by this broker: {why}", hint=_ANOTHER_PREFIX
    )
