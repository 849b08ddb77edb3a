"""Spark's writers with exactly-once, called as Spark calls them, with and without two phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.model import SinkConfig
from spark_kafka_sink.spark.contract import Contract
from spark_kafka_sink.spark.exactly_once.planning import plan_write
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
from tests.support.clients.readers import by_confluent
from tests.support.kafka.broker import KafkaCluster

if TYPE_CHECKING:
    from spark_kafka_sink import EmbeddedBroker
    from spark_kafka_sink.spark.exactly_once.writers import ExactlyOnceWriter
    from tests.support.kafka.zookeeper import ZooKeeperCluster

ROWS = pa.record_batch({"value": [b"a", b"b"]})
TWO_PHASES = {
    "unstable.api.versions.enable": "true",
    "transaction.two.phase.commit.enable": "true",
}


def _plan(servers: str, topic: str, **more: str) -> ExactlyOnceWriter:
    config = SinkConfig.parse(
        {
            "kafka.bootstrap.servers": servers,
            "kafka.max.block.ms": "20000",
            "topic": topic,
            "deliveryGuarantee": "exactly-once",
            "transactionalIdPrefix": topic,
            **more,
        }
    )
    places: dict[str, Any] = dict.fromkeys(("key", "topic", "partition", "headers", "timestamp"))
    return plan_write(config, Contract(value=0, fixed_topic=topic, **places), WriteOrigin())


def _values(servers: str, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in by_confluent(servers, topic))


def test_a_batch_is_visible_once_it_is_committed(
    any_kafka: KafkaCluster | EmbeddedBroker, unique_topic: str
) -> None:
    servers = any_kafka.bootstrap_servers
    writer = _plan(servers, unique_topic, batchId="1")
    message = writer.write(iter([ROWS]))
    assert _values(servers, unique_topic) == []
    writer.commit([message, writer.write(iter([]))])
    assert _values(servers, unique_topic) == [b"a", b"b"]
    again = _plan(servers, unique_topic, batchId="1")
    again.commit([again.write(iter([ROWS]))])
    assert _values(servers, unique_topic) == [b"a", b"b"]


def test_on_older_kafkas(old_kafka: ZooKeeperCluster, unique_topic: str) -> None:
    """Transactions V1."""
    servers = old_kafka.bootstrap_servers
    failed = _plan(servers, unique_topic, batchId="1")
    failed.abort([failed.write(iter([ROWS])), None])
    for _ in range(2):
        writer = _plan(servers, unique_topic, batchId="1")
        writer.commit([writer.write(iter([ROWS]))])
        assert _values(servers, unique_topic) == [b"a", b"b"]


def test_an_aborted_batch_holds_nobody_back(
    any_kafka: KafkaCluster | EmbeddedBroker, unique_topic: str
) -> None:
    servers = any_kafka.bootstrap_servers
    failed = _plan(servers, unique_topic)
    failed.abort([failed.write(iter([ROWS])), None])
    writer = _plan(servers, unique_topic)
    writer.commit([writer.write(iter([ROWS]))])
    assert _values(servers, unique_topic) == [b"a", b"b"]


def test_two_phases_on_brokers_that_allow_them(unique_topic: str) -> None:
    with KafkaCluster(config=TWO_PHASES) as kafka:
        servers = kafka.bootstrap_servers
        writer = _plan(servers, unique_topic, batchId="1", twoPhaseCommit="true")
        writer.commit([writer.write(iter([ROWS]))])
        assert _values(servers, unique_topic) == [b"a", b"b"]
        aborted = _plan(servers, unique_topic, batchId="2", twoPhaseCommit="true")
        aborted.abort([aborted.write(iter([ROWS])), None])
        last = _plan(servers, unique_topic, batchId="2", twoPhaseCommit="true")
        last.commit([last.write(iter([ROWS]))])
        assert _values(servers, unique_topic) == [b"a", b"a", b"b", b"b"]


def test_two_phases_on_brokers_that_do_not(
    any_kafka: KafkaCluster | EmbeddedBroker, unique_topic: str
) -> None:
    writer = _plan(any_kafka.bootstrap_servers, unique_topic, twoPhaseCommit="true")
    with pytest.raises(ProtocolError, match="InitProducerId 6"):
        writer.write(iter([ROWS]))
