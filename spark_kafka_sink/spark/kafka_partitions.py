"""Repartition a DataFrame so that each Kafka partition is in one task, for atomicBatch=true."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_kafka_sink.common.arguments import FRAME, check_argument, options_as_text
from spark_kafka_sink.common.errors import ColumnError, ConfigError, UnknownTopicError
from spark_kafka_sink.config.sink_config import ProducerConfig, SinkConfig
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client
from spark_kafka_sink.kafka.protocol.error_codes import error_name
from spark_kafka_sink.kafka.records.columns import read_bytes
from spark_kafka_sink.producer.append.partitioner import KEY_RULES
from spark_kafka_sink.spark.pyspark_backports import bigint_udf, repartition_by_id
from spark_kafka_sink.spark.runtime.worker_context import with_shipped_files
from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles

if TYPE_CHECKING:
    from spark_kafka_sink.config.enums import PartitionerName

_RETRY_TIMEOUT_S = 2.0
"""Seconds to retry while a new topic is unknown to the brokers."""


def repartition_by_kafka_partition(
    df: DataFrame,
    options: Mapping[str, Any],
    *,
    partitions: int | Mapping[str, int] | None = None,
    topics: Sequence[str] | str = (),
    tasks: int | None = None,
) -> DataFrame:
    """Add the column `partition`, and put all rows of a Kafka partition into one task.

    Rows with a key are assigned by the sink's partitioner, rows without a key by a hash of their
    value; an existing `partition` of a row is not changed. The assignment is deterministic. Batch
    and streaming DataFrames are accepted::

        options = {"kafka.bootstrap.servers": "localhost:9092", "topic": "events", ...}
        frame = repartition_by_kafka_partition(df, options)
        frame.write.format("kafkaprod").options(**options).mode("append").save()

    Args:
        df: a DataFrame with the columns of the sink.
        options: the options of the write.
        partitions: number of partitions of each topic; by default they are requested from the
            brokers once.
        topics: the names in the column `topic`; required if neither the option `topic` nor
            `partitions` is set.
        tasks: number of tasks, among which the partitions are distributed; by default one per
            partition.

    Raises:
        ConfigError: an option is wrong or not supported, or the topics are unknown.
        ColumnError: the DataFrame violates the column roles.
        UnknownTopicError: a topic does not exist.
        KafkaProdError: the brokers cannot be reached.
    """
    call = "repartition_by_kafka_partition(df, options)"
    check_argument(call, df, FRAME, ("schema", "withColumn", "repartition"))
    user_options = options_as_text(call, options)
    if isinstance(topics, str):
        topics = (topics,)
    if tasks is not None and tasks < 1:
        raise ConfigError(f"{call}: tasks={tasks}", hint="Use a number above 0, or omit it.")
    config = SinkConfig.parse(user_options)
    roles = ColumnRoles.of(df.schema, config)
    _check_roles(df, roles)
    if config.producer.partitioner_function is not None:
        raise ConfigError(
            "repartition_by_kafka_partition does not support custom partitioners",
            hint="Add a column `partition`, and remove the partitioner.",
        )
    counts = _partition_counts(config, partitions, topics)
    topic = sf.col("topic") if config.topic is None else None
    frame = df.withColumn("partition", _partition_of(df, roles, config.producer, topic, counts))
    first = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist(), strict=False))
    task = sf.coalesce(_of_topic(topic, first) + sf.col("partition"), sf.lit(0))
    count = tasks or sum(counts.values())
    return repartition_by_id(frame, count, sf.pmod(task, sf.lit(count)).cast("int"))


def key_hashes(partitioner: PartitionerName, keys: pa.Array[Any]) -> pa.Array[Any]:
    """Return the hash that determines each key's partition, or null if the key has no effect.

    Args:
        partitioner: a partitioner that uses keys.
        keys: n keys, text or binary.
    """
    rule = KEY_RULES[partitioner]
    key_bytes = read_bytes(keys)
    return pa.array(
        rule.hash(key_bytes).astype(np.int64), pa.int64(), mask=~rule.with_key(key_bytes)
    )


def _check_roles(df: DataFrame, roles: ColumnRoles) -> None:
    """Raise an error if the partitions cannot be determined, or would replace a field.

    Raises:
        ConfigError: keys are serialized, or the column `partition` is a field of the value.
    """
    if roles.key_spec is not None:
        raise ConfigError(
            "repartition_by_kafka_partition does not support key.format="
            f"{roles.key_spec.format.value}, because a key's partition depends on its bytes",
            hint="Add a column `partition` and repartition by it, or serialize the key into a "
            "column that is written with key.format=raw.",
        )
    if "partition" in df.columns and roles.partition is None:
        raise ConfigError(
            "repartition_by_kafka_partition would replace the column `partition`, which options "
            "list as a field",
            hint="Rename the field.",
        )


def _column(df: DataFrame, index: int) -> Column:
    return sf.col(f"`{df.columns[index].replace('`', '``')}`")


def _partition_of(
    df: DataFrame,
    roles: ColumnRoles,
    config: ProducerConfig,
    topic: Column | None,
    counts: Mapping[str, int],
) -> Column:
    """Return a column with the Kafka partition of each row."""
    count = _of_topic(topic, counts)
    if topic is not None:
        unknown = sf.concat(
            sf.lit("repartition_by_kafka_partition has no partition count of the topic "), topic
        )
        known = sf.coalesce(count, sf.raise_error(unknown).cast("int"))
        count = sf.when(topic.isNull(), sf.lit(1)).otherwise(known)  # The sink reports the error.
    choices = [sf.col("partition")] if roles.partition is not None else []
    rule = KEY_RULES.get(config.partitioner)
    if roles.key is not None and rule is not None and not config.partitioner_ignore_keys:
        hashed = _hash_udf(config.partitioner)(_column(df, roles.key).cast("binary"))
        choices.append(sf.pmod(hashed, count).cast("int"))
    spec = roles.value_spec
    value = (cast("int", roles.value),) if spec is None else spec.columns
    hashed = sf.xxhash64(*(_column(df, index) for index in value))
    choices.append(sf.pmod(hashed, count).cast("int"))
    return sf.coalesce(*choices)


def _hash_udf(partitioner: PartitionerName) -> Callable[[Column], Column]:
    """Return a UDF that hashes key columns with the producer's code."""
    return bigint_udf(lambda keys: key_hashes(partitioner, keys))


def _of_topic(topic: Column | None, numbers: Mapping[str, int]) -> Column:
    """Return the number for the row's topic or the only topic, or null if there is no number."""
    if topic is None:
        return sf.lit(next(iter(numbers.values())))
    pairs = [sf.lit(value) for pair in numbers.items() for value in pair]
    return sf.try_element_at(sf.create_map(*pairs), topic)


def _partition_counts(
    config: SinkConfig, partitions: int | Mapping[str, int] | None, topics: Sequence[str]
) -> dict[str, int]:
    """Return the number of partitions of each topic that rows are written to."""
    if isinstance(partitions, Mapping):
        counts = dict(partitions)
        topics = topics or tuple(counts)
    names = tuple(dict.fromkeys(topics)) if config.topic is None else (config.topic,)
    if not names:
        raise ConfigError(
            "the topics are in a column, so repartition_by_kafka_partition cannot determine them",
            hint="Pass topics=[...], or partitions={topic: number of partitions}.",
        )
    if isinstance(partitions, int):
        counts = dict.fromkeys(names, partitions)
    elif partitions is None:
        counts = _partition_counts_of_brokers(with_shipped_files(config.producer), names)
    missing = [name for name in names if counts.get(name, 0) < 1]
    if missing:
        raise ColumnError(f"partitions has no entry for the topic {missing[0]}")
    return {name: counts[name] for name in names}


def _partition_counts_of_brokers(config: ProducerConfig, names: Collection[str]) -> dict[str, int]:
    """Return the partition counts that the brokers report."""
    with borrowed_client(config) as client:
        deadline = client.deadline(config.max_block_ms / 1000)
        retry_until = client.deadline(_RETRY_TIMEOUT_S)
        client.metadata.add_topics(names)
        while True:
            client.refresh_metadata(deadline)
            cluster = client.cluster
            partitions = {
                name: cluster.topics[name].partition_count
                for name in names
                if name in cluster.topics
            }
            missing = [name for name in names if not partitions.get(name)]
            if not missing:
                return partitions
            if client.now() > retry_until:
                raise UnknownTopicError(
                    "the topic does not exist, or this user is not authorized to describe it",
                    topic=missing[0],
                    kafka_error=error_name(cluster.errors.get(missing[0], 0)),
                    hint="Create it first, or pass the number of partitions that it will have: "
                    "partitions=...",
                )
            client.pause(0.1, deadline)
