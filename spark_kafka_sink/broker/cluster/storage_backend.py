"""Selection of a broker's storage backend: memory, a data folder, or Redis."""

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
    """Return True if the storage is accessed over a network.

    Requests are then handled on a thread of their own.
    """
    return config.storage != LOG


def open_backend(
    config: BrokerConfig,
    clock: Clock,
    lock: StateLock | None,
    news: Callable[[TopicPartition], None],
) -> StorageBackend:
    """Open the storage backend that the options select.

    Args:
        config: the broker's options.
        clock: the cluster's clock.
        lock: the lock on the cluster's state; a remote storage releases it while it waits.
        news: called with a partition, on any thread, when the storage has news for requests that
            wait for it.

    Raises:
        ConfigError: the storage cannot be used as configured.
        BrokerUnavailableError: Redis does not answer.
    """
    if lock is not None:
        return RedisBackend(config.storage, clock, lock, news)
    return DataDir(config.data_dir) if config.data_dir else MemoryBackend()
