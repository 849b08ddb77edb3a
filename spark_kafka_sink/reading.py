"""Read the records of topics on the driver, for interactive use and tests."""

from __future__ import annotations

from itertools import chain, islice

from spark_kafka_sink.common.arguments import options_as_text
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
from spark_kafka_sink.kafka.logs.topic_reader import TIMEOUT_S, TopicReader
from spark_kafka_sink.kafka.protocol.isolation_level import IsolationLevel
from spark_kafka_sink.kafka.records.consumer_record import ConsumerRecords

_MAX_RECORDS = 1_000_000
"""Maximum number of records that `read_records` returns without a `limit`, because they are in
memory.
"""


def read_records(
    *topics: str,
    limit: int | None = None,
    partition: int | None = None,
    offset: int = 0,
    uncommitted: bool = False,
    timeout_s: float = TIMEOUT_S,
    **options: object,
) -> ConsumerRecords:
    """Return the records of topics, up to the current end of each partition.

    The options are the same as for a write. The function joins no consumer group and commits no
    offsets::

        kafka = {"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"}
        read_records(**kafka).to_pandas()
        read_records("orders", offset=-10, **kafka)  # the last ten offsets of each partition

    Args:
        topics: names of topics; by default, the value of the option `topic`.
        limit: maximum number of records, or None for all records (at most a million).
        partition: the partition to read, or None for all partitions.
        offset: the first offset; a negative offset is relative to the end of each partition.
        uncommitted: True to include records of open and aborted transactions.
        timeout_s: time in seconds to wait for a response from the brokers.
        options: options of a write, with values of any type; only connection options are used.

    Returns:
        A list of `ConsumerRecord`, by topic as given, partition and offset, with the methods
        `to_pandas()`, `to_arrow()` and `to_spark(spark)`.

    Raises:
        ConfigError: an option is invalid, or there are too many records without a `limit`.
        UnknownTopicError: a topic or the partition does not exist.
        AuthorizationError: an ACL is missing; the error contains it.
        BrokerUnavailableError: the brokers have not responded in time.
        KafkaProdError: the client cannot log in, or a batch cannot be decoded.
    """
    config = SinkConfig.parse(options_as_text("read_records(**options)", options))
    names = topics or ((config.topic,) if config.topic else ())
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            "read_records() requires at least one topic name",
            hint='Example: read_records("orders").',
        )
    if limit is not None and limit < 0:
        raise ConfigError(f"read_records(): limit must not be negative, but is {limit}")
    isolation = IsolationLevel.READ_UNCOMMITTED if uncommitted else IsolationLevel.READ_COMMITTED
    with BlockingClient(config.producer) as client:
        client.await_metadata(client.deadline(timeout_s))
        readers = [TopicReader(client, name, isolation, timeout_s) for name in names]
        ranges = [
            (reader, offsets) for reader in readers for offsets in reader.ranges(offset, partition)
        ]
        if limit is None:
            _check_size(sum(offsets.end - offsets.start for _, offsets in ranges))
        records = chain.from_iterable(reader.records(offsets) for reader, offsets in ranges)
        return ConsumerRecords(islice(records, limit))


def _check_size(offsets: int) -> None:
    if offsets > _MAX_RECORDS:
        raise ConfigError(
            f"read_records() would read up to {offsets:,} records into memory",
            hint="Set limit, partition or offset, or read with Spark's format('kafka').",
        )
