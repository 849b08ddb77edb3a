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
    from spark_kafka_sink.broker.storage.log_storage import StorageBackend
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.common.clock import Clock


def open_backend(
    config: BrokerConfig, clock: Clock, news: Callable[[TopicPartition], None]
) -> StorageBackend:
    """The storage that the options ask for.

    Args:
        config: what was asked for.
        clock: the cluster's.
        news: told of a partition, on any thread, when a storage has news for those who wait.

    Raises:
        ConfigError: it can't be used as it was asked for.
        BrokerUnavailableError: Redis does not answer.
    """
    if config.storage != LOG:
        return RedisBackend(config.storage, clock, news)
    return DataDir(config.data_dir) if config.data_dir else MemoryBackend()
