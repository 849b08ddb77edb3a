"""Which storage a broker has: in memory, in a folder, or in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.config import LOG
from spark_kafka_sink.broker.redis.backend import RedisBackend
from spark_kafka_sink.broker.storage.data_dir import DataDir
from spark_kafka_sink.broker.storage.segmented_storage import MemoryBackend

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.config import BrokerConfig
    from spark_kafka_sink.broker.state_lock import StateLock
    from spark_kafka_sink.broker.storage.log_storage import StorageBackend
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.common.clock import Clock


def is_remote(config: BrokerConfig) -> bool:
    """Whether the storage is a network away: its requests have a thread of their own then."""
    return config.storage != LOG


def open_backend(
    config: BrokerConfig,
    clock: Clock,
    lock: StateLock | None,
    news: Callable[[TopicPartition], None],
) -> StorageBackend:
    """The storage that the options ask for.

    Args:
        config: what was asked for.
        clock: the cluster's.
        lock: on the cluster's state; a storage that `is_remote` releases it while it waits.
        news: told of a partition, on any thread, when a storage has news for those who wait.

    Raises:
        ConfigError: it can't be used as it was asked for.
        BrokerUnavailableError: Redis does not answer.
    """
    if lock is not None:
        return RedisBackend(config.storage, clock, lock, news)
    return DataDir(config.data_dir) if config.data_dir else MemoryBackend()
