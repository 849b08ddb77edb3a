"""The storage backend for ``--storage redis://…``: logs in Redis Streams, the journal in a hash."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.redis.connection import RedisConnection, RedisFailedError
from spark_kafka_sink.broker.redis.hash_journal import RedisJournal
from spark_kafka_sink.broker.redis.location import RedisLocation
from spark_kafka_sink.broker.redis.owned_connection import OwnedConnection
from spark_kafka_sink.broker.redis.replicas import LogReplication, RedisReplicas
from spark_kafka_sink.broker.redis.stream_storage import RedisLogStorage
from spark_kafka_sink.broker.redis.streams import RedisStreams, StreamKeys
from spark_kafka_sink.broker.storage.log_storage import OnBatch, StorageBackend
from spark_kafka_sink.common.errors import BrokerUnavailableError, ConfigError
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.config.topic_config import LogConfig
    from spark_kafka_sink.broker.storage.state_lock import StateLock
    from spark_kafka_sink.common.clock import Clock


_FULL = "used memory > 'maxmemory'"
"""Part of the error with which a full Redis rejects a command."""


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
        self._connection = OwnedConnection(location, lock)
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
            raise _unavailable_error(error) from error
        except ConfigError:
            self.close()
            raise

    def check_vacant(self, topic: str, partition: int) -> None:
        """Check that the partition's keys do not exist."""
        self._streams_of(topic, partition).check_vacant()

    def create(self, topic: str, partition: int, config: LogConfig) -> RedisLogStorage:
        """Create an empty log; fail if its streams exist."""
        streams = self._streams_of(topic, partition)
        streams.begin()
        return self._new_storage(TopicPartition(topic, partition), streams, config)

    def load(
        self, topic: str, partition: int, config: LogConfig, on_batch: OnBatch
    ) -> RedisLogStorage:
        """See `StorageBackend`.

        Raises:
            ConfigError: a key is not a stream.
        """
        streams = self._streams_of(topic, partition)
        storage = self._new_storage(TopicPartition(topic, partition), streams, config)
        try:
            streams.reopen()
            storage.load(on_batch)
        except RedisFailedError as error:
            raise _unavailable_error(error) from error
        return storage

    def remove(self, topic: str, partition: int, *, only_if_empty: bool = False) -> None:
        """See `StorageBackend`. Keys that are not streams are not deleted."""
        self._streams_of(topic, partition).delete_streams(only_if_empty=only_if_empty)

    def close(self, *, clean: bool = True) -> None:  # noqa: ARG002
        """Close the connections."""
        if self._replicas is not None:
            self._replicas.close()
        self._connection.close()

    def _streams_of(self, topic: str, partition: int) -> RedisStreams:
        location = self._location
        keys = StreamKeys(
            records=location.stream(topic, partition), batches=location.batches(topic, partition)
        )
        return RedisStreams(self._connection, location.ids, keys)

    def _new_storage(
        self, topic_partition: TopicPartition, streams: RedisStreams, config: LogConfig
    ) -> RedisLogStorage:
        request: Callable[[int], bool] | None = None
        if self._replicas is not None:
            request = partial(self._replicas.request, LogReplication(topic_partition))
        return RedisLogStorage(streams, self._location.ids, self._clock, config, request)


def _unavailable_error(error: RedisFailedError) -> BrokerUnavailableError:
    hint = "Start Redis, or check the URL."
    if _FULL in str(error):
        hint = "Redis is full: raise maxmemory, as in redis-cli CONFIG SET maxmemory 2gb."
    return BrokerUnavailableError(f"the storage cannot be used: {error}", hint=hint)
