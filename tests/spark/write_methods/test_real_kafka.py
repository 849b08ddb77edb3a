"""Writes to a real Kafka, also over TLS with a password; part of `make test`."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.support.sink import create_topics
from tests.spark.write_methods.batch import BATCH
from tests.spark.write_methods.stream import STREAMS
from tests.spark.write_methods.write_method import ROWS, Write, WriteMethod, run_method
from tests.support.security.client_configs import TRUST, ClientConfig, password_options
from tests.support.security.listeners import Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import User
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import by_confluent

pytestmark = pytest.mark.quick

NAMES = ("save", "save-exactly-once", "stream-append-available-now", "stream-exactly-once")
METHODS = [method for method in (*BATCH, *STREAMS) if method.name in NAMES]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_all_rows_are_written(
    method: WriteMethod, spark: SparkSession, real_kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = f"real-{method.name}"
    create_topics(real_kafka, [topic])
    assert run_method(method, Write(spark, real_kafka.bootstrap_servers, topic, tmp_path)) is None
    values = [record.value for record in by_confluent(real_kafka.bootstrap_servers, topic)]
    assert len(values) == len(set(values)) == ROWS


def test_secured_listener(spark: SparkSession, tmp_path: Path) -> None:
    login = TRUST | password_options("SCRAM-SHA-512", User.ALICE)
    client = ClientConfig("SCRAM", Listener.SCRAM_ONLY, login)
    with SecuredKafka([client.listener]) as kafka:
        topic = kafka.admin.create_topic("secured", 3)
        options = client.spark_options(kafka)
        write = Write(spark, kafka.servers(client.listener), topic, tmp_path, options)
        assert run_method(METHODS[0], write) is None
        assert len(by_confluent(kafka.bootstrap_servers, topic)) == ROWS
