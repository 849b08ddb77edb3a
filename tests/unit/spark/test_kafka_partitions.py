"""The function that assigns keys to partitions in Spark, and its options."""

from random import Random
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructType

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.enums import PartitionerName
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterTopic
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED
from spark_kafka_sink.producer.append.partitioner import KEY_RULES, Partitioner
from spark_kafka_sink.spark.kafka_partitions import key_hashes, repartition_by_kafka_partition
from tests.support.producer_writes import rows

KEYS = [b"%d key" % number for number in range(300)] + [b"", None]
COUNT = 7


@pytest.mark.parametrize("kind", KEY_RULES)
def test_keys_are_assigned_as_by_the_producer(kind: PartitionerName) -> None:
    config = ProducerConfig.parse(
        {"kafka.bootstrap.servers": "h:1", "kafka.partitioner": kind.value}
    )
    topic = ClusterTopic("t", None, (1,) * COUNT, (0,) * COUNT)
    chunk = rows("t", [b"v"] * len(KEYS), keys=KEYS)
    route = Partitioner(config, Random(1)).assign(chunk, (topic,))
    assigned = [route.target(number)[1] for number in route.targets.tolist()]
    hashes = key_hashes(kind, pa.array(KEYS, pa.binary())).to_pylist()
    partitions = [UNASSIGNED if hash_ is None else hash_ % COUNT for hash_ in hashes]
    assert partitions == assigned
    assert len(np.unique(partitions)) >= COUNT


def test_option_values_need_not_be_text() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "dryRun": True, "kafka.linger.ms": -1}
    with pytest.raises(ConfigError, match=r"kafka\.linger\.ms is '-1'"):
        repartition_by_kafka_partition(Mock(), options)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"key.format": "json", "key.fields": "id"}, r"does not support key\.format=json"),
        ({"value.fields": "id,partition"}, "would replace the column `partition`"),
    ],
)
def test_formats_whose_partitions_cannot_be_determined(options: dict[str, str], error: str) -> None:
    schema = StructType().add("id", StringType()).add("partition", IntegerType())
    frame = Mock(schema=schema, columns=schema.names)
    servers = {"kafka.bootstrap.servers": "h:1", "topic": "t", "value.format": "json"}
    with pytest.raises(ConfigError, match=error):
        repartition_by_kafka_partition(frame, servers | {"value.fields": "id"} | options)
