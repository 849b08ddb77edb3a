"""Partitions as Redis Streams: the storage backend of ``--storage redis://…``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from spark_kafka_sink.broker.redis.connection import (
    RedisConnection,
    RedisFailedError,
    RedisLocation,
)
from spark_kafka_sink.broker.redis.log_storage import OffsetAllocator, RedisLogStorage
from spark_kafka_sink.broker.redis.streams import (
    PartitionReplicas,
    RedisReplicas,
    RedisStreams,
    StreamKeys,
)
from spark_kafka_sink.broker.storage.journal import Journal
from spark_kafka_sink.broker.storage.log_storage import StorageBackend
from spark_kafka_sink.common.errors import BrokerUnavailableError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_kafka_sink.broker.state_lock import StateLock
    from spark_kafka_sink.broker.storage.journal import Key
    from spark_kafka_sink.broker.storage.log_storage import LogConfig, OnBatch
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.common.clock import Clock


FORMAT: Final = ("format", 1)
"""Field that marks the prefix as a broker's, as Redis has no empty hashes."""
SEQUENCE_BITS: Final = "sequence_bits"
_SHOWN: Final = 5
_ANOTHER_PREFIX: Final = (
    "Nothing was changed. Give another prefix, as in redis://host:port/db?prefix=name, or rename "
    "or delete what is there"
)


class RedisJournal(Journal):
    """A `Journal` in a Redis hash: the field is [kind, key…] as JSON, the value is JSON as well.

    Raises:
        ConfigError: the prefix has data, but not a journal of this broker, or other sequence_bits.
        OSError: Redis failed.
    """

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
        self._check_sequence_bits(location)
        connection.own(self._hash)

    def _check_sequence_bits(self, location: RedisLocation) -> None:
        """Check that the ids in the streams mean the offsets that they were made from.

        Raises:
            ConfigError: they were made with other bits.
        """
        bits = location.ids.sequence_bits
        kept = self.get(SEQUENCE_BITS, ())
        if kept is None:
            self.put(SEQUENCE_BITS, (), bits)
        elif kept != bits:
            raise ConfigError(
                f"the data with the prefix {location.prefix!r} of {location.address} has "
                f"sequence_bits={kept}, and the storage URL {bits}",
                hint=f"Nothing was changed. Give sequence_bits={kept}, or another prefix",
            )

    def _load(self) -> None:
        flat = self._connection.call("HGETALL", self._hash)
        for field, value in zip(flat[::2], flat[1::2], strict=True):
            try:
                kind, *key = json.loads(field)
                self._set(kind, tuple(key), json.loads(value))
            except (ValueError, TypeError) as error:
                raise _not_a_journal(self._hash, f"its field {field!r} can't be read") from error

    def put(self, kind: str, key: Key, value: Any) -> None:
        """See `Journal`.

        Raises:
            OSError: Redis failed.
        """
        field = json.dumps([kind, *key])
        if value is None:
            self._connection.call("HDEL", self._hash, field)
        else:
            self._connection.call("HSET", self._hash, field, json.dumps(value))
        self._set(kind, key, value)

    def close(self) -> None:
        """Do nothing: the connection is shared."""


def _refuse_foreign(connection: RedisConnection, location: RedisLocation) -> None:
    """Check that no key has the prefix, as there is no journal.

    Raises:
        ConfigError: there are such keys.
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


class RedisBackend(StorageBackend):
    """Logs and journal in one Redis; one broker at a time may use a prefix.

    Args:
        url: see `RedisLocation.parse`.
        clock: the clock that offsets are derived from.
        lock: the lock on the cluster's state; released while waiting for Redis.
        news: called with a partition, on another thread, when Redis's replicas have more of it.

    Raises:
        ConfigError: the URL is invalid, redis-py is missing, another broker uses the prefix, or the
            prefix has data that this broker did not write.
        BrokerUnavailableError: Redis does not respond.
    """

    def __init__(
        self, url: str, clock: Clock, lock: StateLock, news: Callable[[TopicPartition], None]
    ) -> None:
        location = self._location = RedisLocation.parse(url)
        self._connection = RedisConnection(location, lock)
        self._allocator = OffsetAllocator(ids=location.ids, clock=clock)
        self._replicas: RedisReplicas | None = None
        if location.replicas:
            self._replicas = RedisReplicas(
                RedisConnection(location), location.journal, location.replicas, news
            )
        try:
            self._connection.claim()
            self._journal = RedisJournal(self._connection, location)
        except RedisFailedError as error:
            self.close()
            raise _unavailable(error) from error
        except ConfigError:
            self.close()
            raise

    def open_journal(self) -> RedisJournal:
        """See `StorageBackend`."""
        return self._journal

    def check_vacant(self, topic: str, partition: int) -> None:
        """See `StorageBackend`."""
        self._streams(topic, partition).check_vacant()

    def create(self, topic: str, partition: int, config: LogConfig) -> RedisLogStorage:
        """See `StorageBackend`."""
        streams = self._streams(topic, partition)
        streams.begin()
        return self._storage((topic, partition), streams, config)

    def load(
        self, topic: str, partition: int, config: LogConfig, on_batch: OnBatch
    ) -> RedisLogStorage:
        """See `StorageBackend`.

        Raises:
            ConfigError: a key is not a stream.
        """
        streams = self._streams(topic, partition)
        storage = self._storage((topic, partition), streams, config)
        try:
            streams.reopen()
            storage.load(on_batch)
        except RedisFailedError as error:
            raise _unavailable(error) from error
        return storage

    def _streams(self, topic: str, partition: int) -> RedisStreams:
        location = self._location
        keys = StreamKeys(
            records=location.stream(topic, partition), batches=location.batches(topic, partition)
        )
        return RedisStreams(self._connection, location.ids, keys)

    def _storage(
        self, topic_partition: TopicPartition, streams: RedisStreams, config: LogConfig
    ) -> RedisLogStorage:
        replicas = PartitionReplicas(self._replicas, topic_partition) if self._replicas else None
        return RedisLogStorage(streams, self._allocator, config, replicas)

    def remove(self, topic: str, partition: int, *, only_if_empty: bool = False) -> None:
        """See `StorageBackend`: keys that are not streams are kept."""
        self._streams(topic, partition).drop(only_if_empty=only_if_empty)

    def close(self) -> None:
        """See `StorageBackend`."""
        if self._replicas is not None:
            self._replicas.close()
        self._connection.close()


def _unavailable(error: RedisFailedError) -> BrokerUnavailableError:
    return BrokerUnavailableError(
        f"the storage can't be used: {error}", hint="Start Redis, or check the URL"
    )
