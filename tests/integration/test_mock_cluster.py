"""Writes to librdkafka's mock cluster, which several libraries use in their own tests."""

from typing import cast

import pytest
from confluent_kafka import Producer
from pyspark.sql.types import StringType, StructType

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.protocol.versions import UnsupportedApiError
from tests.integration.support.columnar import write_rows
from tools.support.readers import by_confluent

KEYED = StructType().add("key", StringType()).add("value", StringType())


class MockCluster:
    """Three brokers in the process of a client."""

    def __init__(self) -> None:
        self._client = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 3})
        brokers = self._client.list_topics(timeout=30).brokers.values()
        self.bootstrap_servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


@pytest.fixture(scope="module")
def mock_cluster() -> EmbeddedBroker:
    return cast("EmbeddedBroker", MockCluster())


@pytest.mark.parametrize("codec", Codec)
def test_records_are_read_by_another_client(mock_cluster: EmbeddedBroker, codec: Codec) -> None:
    rows = [{"key": f"k{number}", "value": "v" * number} for number in range(300)]
    topic = f"of-{codec.name.lower()}"
    options = {"topic": topic, "kafka.compression.type": codec.name.lower()}
    write_rows(mock_cluster, KEYED, rows, preflight="auto", **options)
    records = by_confluent(mock_cluster.bootstrap_servers, topic)
    pairs = sorted((record.key or b"", record.value or b"") for record in records)
    assert pairs == sorted((row["key"].encode(), row["value"].encode()) for row in rows)


def test_exactly_once_is_rejected(mock_cluster: EmbeddedBroker) -> None:
    options = {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "p", "batchId": "1"}
    with pytest.raises(UnsupportedApiError, match="DESCRIBE_CONFIGS"):
        write_rows(mock_cluster, KEYED, [{"key": "k", "value": "v"}], topic="once", **options)
