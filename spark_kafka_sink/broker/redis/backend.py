"""Topic-partitions as Redis Streams: the `StorageBackend` of ``--storage redis://…``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.redis.connection import RedisConnection, RedisFailedError
from spark_kafka_sink.broker.redis.journal import RedisJournal
from spark_kafka_sink.broker.redis.location import RedisLocation
from spark_kafka_sink.broker.redis.log_storage import OffsetAllocator, RedisLogStorage
from spark_kafka_sink.broker.redis.replicas import PartitionReplicas, RedisReplicas
from spark_kafka_sink.broker.redis.streams import RedisStreams, StreamKeys
from spark_kafka_sink.common.errors import BrokerUnavailableError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.state_lock import StateLock
    from spark_kafka_sink.broker.storage.log_config import LogConfig
    from spark_kafka_sink.broker.storage.log_storage import OnBatch
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.common.clock import Clock


class RedisBackend:
    """Logs and journal in one Redis; one broker at a time may use a prefix.

    Args:
        url: see `RedisLocation.parse`.
        clock: tells the time that offsets begin with.
        lock: on the cluster's state; released while Redis is waited for.
        news: told of a partition, on another thread, when Redis's replicas have more of it.

    Raises:
        ConfigError: the URL is wrong, redis-py is missing, another broker uses the prefix, or it
            has data that is not of this broker.
        BrokerUnavailableError: Redis does not answer.
    """

    __slots__ = ("_allocator", "_connection", "_journal", "_location", "_replicas")

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
        """See `StorageBackend`; ConfigError if a key is not a stream."""
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
        """See `StorageBackend`: keys that are no streams stay."""
        self._streams(topic, partition).drop(only_if_empty=only_if_empty)

    def close(self) -> None:
        """See `StorageBackend`."""
        if self._replicas is not None:
            self._replicas.close()
        self._connection.close()

    def abandon(self) -> None:
        """See `StorageBackend`."""
        self.close()


def _unavailable(error: RedisFailedError) -> BrokerUnavailableError:
    return BrokerUnavailableError(
        f"the storage can't be used: {error}", hint="Start Redis, or check the URL"
    )
