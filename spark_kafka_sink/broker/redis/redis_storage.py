"""The storage backend for ``--storage redis://…``: logs in Redis Streams, the journal in a hash.

Each record is a stream entry, and the entry id is derived from the record's offset.
"""

from __future__ import annotations

import json
import logging
from array import array
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from spark_kafka_sink.broker.redis.batch_entry import BatchEntry
from spark_kafka_sink.broker.redis.entries import EntryIds, write_fields
from spark_kafka_sink.broker.redis.redis_connection import (
    OWNER_FIELD,
    WAITS_FIELD,
    ChangedDataError,
    RedisConnection,
    RedisFailedError,
)
from spark_kafka_sink.broker.redis.redis_location import RedisLocation
from spark_kafka_sink.broker.redis.redis_replicas import LogReplication, RedisReplicas
from spark_kafka_sink.broker.redis.streams import OffsetSpan, RedisStreams, StreamKeys, add_command
from spark_kafka_sink.broker.storage.journal import TOPIC, TRANSACTION, Journal, Key
from spark_kafka_sink.broker.storage.log_storage import (
    END,
    UNLIMITED,
    BatchFacts,
    BatchTable,
    LogStorage,
    StorageBackend,
    StoredBatch,
)
from spark_kafka_sink.common.errors import BrokerUnavailableError, ConfigError
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import OPEN_STATES
from spark_kafka_sink.kafka.records.record_batch import NO_TIMESTAMP, BatchHeader
from spark_kafka_sink.kafka.records.record_decoder import decode_batch, records_section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from spark_kafka_sink.broker.redis.redis_connection import Command
    from spark_kafka_sink.broker.state_lock import StateLock
    from spark_kafka_sink.broker.storage.log_storage import OnBatch
    from spark_kafka_sink.broker.topic_config import LogConfig
    from spark_kafka_sink.common.clock import Clock


_LOG = logging.getLogger(__name__)

READ_BYTES = 1 << 20
"""Maximum bytes per read, unless the first batch is larger. A read blocks the calling thread."""
FORMAT: Final = ("format", 1)
"""Field that marks the prefix as used by a broker, because Redis does not support empty hashes."""
SEQUENCE_BITS: Final = "sequence_bits"
_NOT_VALUES: Final = {OWNER_FIELD.encode(), WAITS_FIELD.encode()}
"""Fields of the hash that do not contain journal values."""
_MAX_LISTED: Final = 5
_FULL: Final = "used memory > 'maxmemory'"
"""Part of the error with which a full Redis rejects a command."""
_ANOTHER_PREFIX: Final = (
    "Nothing was changed. Set another prefix, as in redis://host:port/db?prefix=name, or rename "
    "or delete the keys"
)


class RedisBatchTable(BatchTable):
    """A `BatchTable` from whose start batches can be dropped. It uses 32 bytes per batch."""

    def __init__(self) -> None:
        super().__init__()
        self._timestamps = array("q")

    def add(self, facts: BatchFacts) -> None:
        """See `BatchTable`."""
        super().add(facts)
        self._timestamps.append(facts.max_timestamp)

    def truncate(self, count: int) -> None:
        """See `BatchTable`."""
        super().truncate(count)
        del self._timestamps[count:]

    def drop(self, count: int) -> None:
        """Drop the first `count` batches. The largest timestamps no longer include them."""
        dropped_bytes = self.position(count)
        for column in (self._last_offsets, self._ends, self._timestamps):
            del column[:count]
        self._ends = _column(np.array(self._ends) - dropped_bytes)
        self._newest = _column(np.maximum.accumulate(np.maximum(self._timestamps, NO_TIMESTAMP)))


def _column(values: NDArray[np.int64]) -> array[int]:
    return array("q", values.tobytes())


@dataclass(slots=True, eq=False)
class RedisLogStorage(LogStorage):
    """A `LogStorage` in Redis Streams, to which only this broker may write.

    Args:
        streams: the partition's streams.
        ids: the mapping between offsets and entry ids.
        clock: the clock from which offsets are derived.
        config: retention limits.
        request_replication: returns True if Redis's replicas have all records before an offset;
            None if acks=all does not wait for the replicas.
    """

    _streams: RedisStreams
    _ids: EntryIds
    _clock: Clock
    config: LogConfig
    _request_replication: Callable[[int], bool] | None = None
    _table: RedisBatchTable = field(default_factory=RedisBatchTable, init=False)
    _start: int = field(default=0, init=False)
    _has_lost: bool = field(default=False, init=False)

    def load(self, on_batch: OnBatch) -> None:
        """Read the headers of all existing batches.

        Raises:
            OSError: Redis failed, or the streams are not in this broker's format.
        """
        self._start = self._streams.restore_start()
        for entry in self._streams.batch_entries():
            on_batch(entry.header, entry.batch(entry.records or b"", entry.header.record_count))
            self._table.add(BatchFacts.of(entry.header, entry.size))
            self._streams.remember(entry.header.base_offset)

    @property
    def start_offset(self) -> int:
        """See `LogStorage`. The value is 0 until batches are dropped. Offsets start much higher."""
        return self._start

    @property
    def end_offset(self) -> int:
        """See `LogStorage`."""
        last = self._table.last_offset
        return self._start if last is None else last + 1

    @property
    def size(self) -> int:
        """See `LogStorage`. This is the size of the uncompressed batches."""
        return self._table.size

    def next_offset(self) -> int:
        """See `LogStorage`. Offsets are derived from the time, but never decrease."""
        end = max(self.end_offset, self._streams.reserved)
        return self._ids.next_offset(end, self._clock.wall_ms())

    def end_before(self, offset: int) -> int:
        """See `LogStorage`."""
        return self._begin(self._table.holding(offset))

    def request_replication(self, offset: int) -> bool:
        """See `LogStorage`."""
        return self._request_replication is None or self._request_replication(offset)

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """See `LogStorage`.

        Raises:
            OSError: Redis failed.
            ProtocolError: the records cannot be read.
        """
        stamped = b"".join(parts)
        header = BatchHeader.parse(stamped)
        section = records_section(stamped, header)
        entry = BatchEntry.of(header, section)
        commands = [] if header.is_control else self._entries(entry, section)
        first = self._ids.text(facts.base_offset)
        commands.append(add_command(self._streams.keys.batches, first, entry.fields(stamped)))
        self._streams.remove_failed_append()
        self._streams.write(commands, OffsetSpan(facts.base_offset, facts.last_offset))
        self._table.add(BatchFacts.of(header, entry.size))

    def _entries(self, entry: BatchEntry, section: memoryview) -> list[Command]:
        plain = entry.batch(section, entry.header.record_count)
        key, text = self._streams.keys.records, self._ids.text
        return [
            add_command(key, text(offset), write_fields(record))
            for offset, record in enumerate(decode_batch(plain), entry.header.base_offset)
        ]

    def read(self, start: int, end: int, max_bytes: int) -> list[memoryview]:
        """See `LogStorage`."""
        first, after = self._between(start, end)
        while first < after:
            end_number = first + 1 if max_bytes < 0 else min(after, self._within(first, max_bytes))
            if end_number == first:
                break
            batches, has_all_records = self._build(first, end_number)
            if len(batches) < end_number - first or not has_all_records:
                self._warn_of_loss()
            if batches:
                while max_bytes >= 0 and sum(map(len, batches)) > max_bytes:
                    batches.pop()
                return batches
            first = end_number
        return []

    def _warn_of_loss(self) -> None:
        if not self._has_lost:
            records = self._streams.keys.records
            _LOG.warning(
                "Redis has lost batches of %s or their records; consumers skip them", records
            )
        self._has_lost = True

    def _within(self, first: int, max_bytes: int) -> int:
        """Return the end (exclusive) of the batch numbers from `first` that are read at once."""
        number = self._table.within(first, min(max_bytes, READ_BYTES))
        return max(number, min(first + 1, self._table.within(first, max_bytes)))

    def _between(self, start: int, end: int) -> tuple[int, int]:
        """Return the first and the end (exclusive) of the batch numbers between two offsets."""
        first = self._table.holding(start)
        return first, max(first, self._table.holding(end))

    def _begin(self, number: int) -> int:
        """Return the end offset of the previous batch. There are no records between batches."""
        return self._table.facts(number - 1, 0).last_offset + 1 if number else self._start

    def _build(self, first: int, end: int) -> tuple[list[memoryview], bool]:
        if first >= end:
            return [], True
        return self._streams.read(OffsetSpan(self._begin(first), self._begin(end) - 1))

    def bytes_between(self, start: int, end: int) -> int:
        """See `LogStorage`."""
        first, after = self._between(start, end)
        return self._table.position(after) - self._table.position(first)

    def batches(self, offset: int = 0) -> Iterator[StoredBatch]:
        """See `LogStorage`."""
        while batches := self.read(offset, END, READ_BYTES) or self.read(offset, END, -1):
            for data in batches:
                batch = StoredBatch.of(data)
                offset = batch.header.last_offset + 1
                yield batch

    def first_at(self, timestamp: int) -> StoredBatch | None:
        """See `LogStorage`."""
        later = self.batches(self._begin(self._table.first_at(timestamp)))
        return next((batch for batch in later if batch.header.max_timestamp >= timestamp), None)

    def first_at_max_timestamp(self) -> StoredBatch | None:
        """See `LogStorage`."""
        return next(self.batches(self._begin(self._table.first_at_max_timestamp())), None)

    def delete_before(self, offset: int) -> None:
        """See `LogStorage`. Batches are dropped individually."""
        number = self._table.holding(offset)
        if number:
            begin = self._begin(number)
            self._streams.trim(begin)
            self._table.drop(number)
            self._start = begin

    def restart_at(self, offset: int) -> None:
        """See `LogStorage`."""
        self._streams.reserved = max(self._streams.reserved, offset)
        self._streams.trim(offset)
        self._streams.mark_deletion()
        self._table.truncate(0)
        self._start = offset

    def truncate(self, offset: int) -> None:
        """See `LogStorage`. The ids of dropped entries are not reused."""
        self._streams.remove_failed_append()
        number = self._table.holding(offset)
        if number < len(self._table):
            self._streams.delete(OffsetSpan(self._begin(number), self.end_offset - 1))
            self._table.truncate(number)

    def expire(self, now_ms: int, high_watermark: int = END) -> None:
        """See `LogStorage`. Batches are dropped individually; Kafka drops whole segments."""
        config, number = self.config, 0
        if not config.deletes:
            return
        if config.retention_ms != UNLIMITED:
            number = self._expired(now_ms - config.retention_ms)
        surplus = self.size - config.retention_bytes
        if config.retention_bytes != UNLIMITED and surplus > 0:
            number = max(number, self._table.within(0, surplus))
        self.delete_before(self._begin(min(number, self._table.holding(high_watermark))))

    def _expired(self, oldest_ms: int) -> int:
        """Return the end of the expired batch numbers. Without timestamps, the ids are used."""
        number = self._table.first_at(oldest_ms)
        if number > self._table.first_at(0):
            return number
        return min(number, self._table.holding(self._ids.offset(max(oldest_ms, 0), 0)))

    def remove_failed_append(self) -> None:
        """See `LogStorage`."""
        self._streams.remove_failed_append()

    def verify(self) -> None:
        """See `LogStorage`."""
        self._streams.verify()


class RedisJournal(Journal):
    """A `Journal` in a Redis hash. Fields are [kind, key…] as JSON, and values are also JSON.

    Raises:
        ConfigError: the prefix has data but no valid journal, or was used with different
            sequence_bits.
        OSError: Redis failed.
    """

    def __init__(self, connection: RedisConnection, location: RedisLocation) -> None:
        super().__init__()
        self._connection = connection
        self._hash = location.journal
        kind = connection.call("TYPE", self._hash).decode()
        if kind not in {"none", "hash"}:
            raise _not_a_journal(self._hash, f"it is a {kind}, not a hash")
        self._load()  # Data that cannot be used must not be changed.
        # If the journal is deleted while a broker runs, `RedisReplicas` creates it again.
        name, value = FORMAT
        if self.get(name, ()) is None:
            _check_no_keys(connection, location)
            self.put(name, (), value)
        self._check_sequence_bits(location)
        connection.own(self._hash, self._load, self._changes)

    def _changes(self, stored: Mapping[bytes, bytes]) -> list[Command]:
        """Return the commands that update the stored fields to the current values.

        Raises:
            ChangedDataError: Redis has records of deleted topics in the streams of new topics, or
                an open transaction that has ended since.
        """
        self._check_topics(stored)
        self._check_transactions(stored)
        expected = {
            _field(kind, key).encode(): json.dumps(value).encode()
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
            other = json.loads(stored.get(_field(TOPIC, (name,)).encode(), b"{}"))
            if other.get("id", topic["id"]) != topic["id"]:
                raise ChangedDataError(
                    f"Redis has loaded an older state, from before topic {name} was deleted and "
                    "recreated. Restart the broker to continue with the older state"
                )

    def _check_transactions(self, stored: Mapping[bytes, bytes]) -> None:
        for (name,), txn in self.all(TRANSACTION).items():
            other = json.loads(stored.get(_field(TRANSACTION, (name,)).encode(), b"null"))
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
        stored = self.get(SEQUENCE_BITS, ())
        if stored is None:
            self.put(SEQUENCE_BITS, (), bits)
        elif stored != bits:
            raise ConfigError(
                f"the data with the prefix {location.prefix!r} of {location.address} has "
                f"sequence_bits={stored}, but the storage URL has {bits}",
                hint=f"Nothing was changed. Set sequence_bits={stored}, or another prefix.",
            )

    def _load(self) -> None:
        self._values.clear()
        flat = self._connection.call("HGETALL", self._hash)
        for name, value in zip(flat[::2], flat[1::2], strict=True):
            if name in _NOT_VALUES:
                continue
            try:
                kind, *key = json.loads(name)
                self._set(kind, tuple(key), json.loads(value))
            except (ValueError, TypeError) as error:
                raise _not_a_journal(self._hash, f"its field {name!r} cannot be read") from error

    def put(self, kind: str, key: Key, value: Any) -> None:
        """See `Journal`.

        Raises:
            OSError: Redis failed.
        """
        field = _field(kind, key)
        if value is None:
            self._connection.call("HDEL", self._hash, field)
        else:
            self._connection.call("HSET", self._hash, field, json.dumps(value))
        self._set(kind, key, value)


def _has_ended(stored: Mapping[str, Any], txn: Mapping[str, Any]) -> bool:
    """Return True if a stored transaction is open and its end is known; compares journal values."""
    states = txn["state"], txn["started_ms"]
    is_other = states != (stored["state"], stored["started_ms"])
    return stored["state"] in OPEN_STATES and is_other and txn["updated_ms"] > stored["updated_ms"]


def _field(kind: str, key: Key) -> str:
    return json.dumps([kind, *key])


def _check_no_keys(connection: RedisConnection, location: RedisLocation) -> None:
    """Check that no key with the prefix exists if there is no journal.

    Raises:
        ConfigError: keys with the prefix exist.
    """
    keys: list[str] = []
    for key in _keys(connection, location.pattern):
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


def _keys(connection: RedisConnection, pattern: str) -> Iterator[bytes]:
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


class RedisBackend(StorageBackend):
    """Logs and journal in a Redis server. Only one broker at a time can use a prefix.

    Args:
        url: see `RedisLocation.parse`.
        clock: the clock from which offsets are derived.
        lock: the lock on the cluster's state, which is released while waiting for Redis.
        on_replicated: called on a different thread when Redis's replicas have more records of a
            partition.

    Raises:
        ConfigError: the URL is invalid, redis-py is missing, another broker uses the prefix, or the
            prefix has data that this broker did not write.
        BrokerUnavailableError: Redis does not respond.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        lock: StateLock,
        on_replicated: Callable[[TopicPartition], None],
    ) -> None:
        location = self._location = RedisLocation.parse(url)
        self._connection = RedisConnection(location, lock)
        self._clock = clock
        self._replicas: RedisReplicas | None = None
        if location.replicas:
            self._replicas = RedisReplicas(
                RedisConnection(location),
                self._connection,
                location.journal,
                location.replicas,
                on_replicated,
            )
        try:
            self._connection.claim()
            self.journal = RedisJournal(self._connection, location)
        except RedisFailedError as error:
            self.close()
            raise _unavailable(error) from error
        except ConfigError:
            self.close()
            raise

    def check_vacant(self, topic: str, partition: int) -> None:
        """See `StorageBackend`."""
        self._streams(topic, partition).check_vacant()

    def create(self, topic: str, partition: int, config: LogConfig) -> RedisLogStorage:
        """See `StorageBackend`."""
        streams = self._streams(topic, partition)
        streams.begin()
        return self._storage(TopicPartition(topic, partition), streams, config)

    def load(
        self, topic: str, partition: int, config: LogConfig, on_batch: OnBatch
    ) -> RedisLogStorage:
        """See `StorageBackend`.

        Raises:
            ConfigError: a key is not a stream.
        """
        streams = self._streams(topic, partition)
        storage = self._storage(TopicPartition(topic, partition), streams, config)
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
        request: Callable[[int], bool] | None = None
        if self._replicas is not None:
            request = partial(self._replicas.request, LogReplication(topic_partition))
        return RedisLogStorage(streams, self._location.ids, self._clock, config, request)

    def remove(self, topic: str, partition: int, *, only_if_empty: bool = False) -> None:
        """See `StorageBackend`. Keys that are not streams are not deleted."""
        self._streams(topic, partition).delete_streams(only_if_empty=only_if_empty)

    def close(self, *, clean: bool = True) -> None:  # noqa: ARG002
        """See `StorageBackend`."""
        if self._replicas is not None:
            self._replicas.close()
        self._connection.close()


def _unavailable(error: RedisFailedError) -> BrokerUnavailableError:
    hint = "Start Redis, or check the URL."
    if _FULL in str(error):
        hint = "Redis is full: raise maxmemory, as in redis-cli CONFIG SET maxmemory 2gb."
    return BrokerUnavailableError(f"the storage cannot be used: {error}", hint=hint)
