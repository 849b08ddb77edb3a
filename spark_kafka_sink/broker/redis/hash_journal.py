"""The journal in a Redis hash, which contains all durable state except the logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.redis.connection import ChangedDataError, Command
from spark_kafka_sink.broker.redis.owned_connection import OWNER_FIELD, OwnedConnection
from spark_kafka_sink.broker.redis.replicas import WAITS_FIELD
from spark_kafka_sink.broker.storage.journal import TOPIC, TRANSACTION, Journal, Key
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.transactions import OPEN_STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_kafka_sink.broker.redis.location import RedisLocation

_FORMAT = ("format", 1)
"""Field that marks the prefix as used by a broker, because Redis does not support empty hashes."""
_SEQUENCE_BITS = "sequence_bits"
_NOT_VALUES = {OWNER_FIELD.encode(), WAITS_FIELD.encode()}
"""Fields of the hash that do not contain journal values."""
_MAX_LISTED = 5
_ANOTHER_PREFIX = (
    "Nothing was changed. Set another prefix, as in redis://host:port/db?prefix=name, or rename "
    "or delete the keys."
)


class RedisJournal(Journal):
    """A `Journal` in a Redis hash. Fields are [kind, key…] as JSON, and values are also JSON.

    Raises:
        ConfigError: the prefix has data but no valid journal, or was used with different
            sequence_bits.
        OSError: Redis failed.
    """

    def __init__(self, connection: OwnedConnection, location: RedisLocation) -> None:
        super().__init__()
        self._connection = connection
        self._hash = location.journal
        kind = connection.call("TYPE", self._hash).decode()
        if kind not in {"none", "hash"}:
            raise _not_a_journal(self._hash, f"it is a {kind}, not a hash")
        self._load_values()  # Data that cannot be used must not be changed.
        # If the journal is deleted while a broker runs, `RedisReplicas` creates it again.
        name, value = _FORMAT
        if self.get(name, ()) is None:
            _check_no_keys(connection, location)
            self.put(name, (), value)
        self._check_sequence_bits(location)
        connection.own(self._hash, self._load_values, self._outdated_fields)

    def put(self, kind: str, key: Key, value: Any) -> None:
        """See `Journal`.

        Raises:
            OSError: Redis failed.
        """
        field = _field_name(kind, key)
        if value is None:
            self._connection.call("HDEL", self._hash, field)
        else:
            self._connection.call("HSET", self._hash, field, json.dumps(value))
        self._set_value(kind, key, value)

    def _outdated_fields(self, stored: Mapping[bytes, bytes]) -> list[Command]:
        """Return the commands that update the stored fields to the current values.

        Raises:
            ChangedDataError: Redis has records of deleted topics in the streams of new topics, or
                an open transaction that has ended since.
        """
        self._check_topics(stored)
        self._check_transactions(stored)
        expected = {
            _field_name(kind, key).encode(): json.dumps(value).encode()
            for kind, values in self._values.items()
            for key, value in values.items()
        }
        fields = stored.keys() | expected.keys()
        changed = [field for field in fields if stored.get(field) != expected.get(field)]
        return [
            ("HSET", self._hash, field, expected[field])
            if field in expected
            else ("HDEL", self._hash, field)
            for field in changed
            if field not in _NOT_VALUES
        ]

    def _check_topics(self, stored: Mapping[bytes, bytes]) -> None:
        for (name,), topic in self.all(TOPIC).items():
            other = json.loads(stored.get(_field_name(TOPIC, (name,)).encode(), b"{}"))
            if other.get("id", topic["id"]) != topic["id"]:
                raise ChangedDataError(
                    f"Redis has loaded an older state, from before topic {name} was deleted and "
                    "recreated. Restart the broker to continue with the older state"
                )

    def _check_transactions(self, stored: Mapping[bytes, bytes]) -> None:
        for (name,), txn in self.all(TRANSACTION).items():
            other = json.loads(stored.get(_field_name(TRANSACTION, (name,)).encode(), b"null"))
            if other and _has_ended(other, txn):
                raise ChangedDataError(
                    f"Redis has loaded an older state, in which a transaction of {name} is open "
                    "that has ended since. Restart the broker to continue with the older state"
                )

    def _check_sequence_bits(self, location: RedisLocation) -> None:
        """Check that the entry ids in the streams were created with the current sequence_bits.

        Raises:
            ConfigError: the ids were created with different sequence_bits.
        """
        bits = location.ids.sequence_bits
        stored = self.get(_SEQUENCE_BITS, ())
        if stored is None:
            self.put(_SEQUENCE_BITS, (), bits)
        elif stored != bits:
            raise ConfigError(
                f"the data with the prefix {location.prefix!r} of {location.address} has "
                f"sequence_bits={stored}, but the storage URL has {bits}",
                hint=f"Nothing was changed. Set sequence_bits={stored}, or another prefix.",
            )

    def _load_values(self) -> None:
        self._values.clear()
        flat = self._connection.call("HGETALL", self._hash)
        for name, value in zip(flat[::2], flat[1::2], strict=True):
            if name in _NOT_VALUES:
                continue
            try:
                kind, *key = json.loads(name)
                self._set_value(kind, tuple(key), json.loads(value))
            except (ValueError, TypeError) as error:
                raise _not_a_journal(self._hash, f"its field {name!r} cannot be read") from error


def _has_ended(stored: Mapping[str, Any], txn: Mapping[str, Any]) -> bool:
    """Return True if a stored transaction is open and its end is known; compares journal values."""
    states = txn["state"], txn["started_ms"]
    is_other = states != (stored["state"], stored["started_ms"])
    return stored["state"] in OPEN_STATES and is_other and txn["updated_ms"] > stored["updated_ms"]


def _field_name(kind: str, key: Key) -> str:
    return json.dumps([kind, *key])


def _check_no_keys(connection: OwnedConnection, location: RedisLocation) -> None:
    """Check that no key with the prefix exists if there is no journal.

    Raises:
        ConfigError: keys with the prefix exist.
    """
    keys: list[str] = []
    for key in _scan_keys(connection, location.pattern):
        if key == location.journal.encode():
            continue
        keys.append(f"{key.decode(errors='replace')} ({connection.call('TYPE', key).decode()})")
        if len(keys) > _MAX_LISTED:
            keys[-1] = "and others"
            break
    if keys:
        raise ConfigError(
            f"{location.address} has keys with the prefix {location.prefix!r}, but no journal of "
            f"this broker ({location.journal}): {', '.join(keys)}",
            hint=_ANOTHER_PREFIX,
        )


def _scan_keys(connection: OwnedConnection, pattern: str) -> Iterator[bytes]:
    cursor = b"0"
    while True:
        cursor, page = connection.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1_000)
        yield from page
        if cursor == b"0":
            return


def _not_a_journal(name: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the key {name} was not written by this broker: {reason}", hint=_ANOTHER_PREFIX
    )
