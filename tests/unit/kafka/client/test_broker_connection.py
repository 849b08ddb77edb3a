"""The throttling of one broker."""

from spark_kafka_sink.kafka.client.broker_connection import BrokerConnection
from spark_kafka_sink.kafka.client.cluster_snapshot import Node


def test_throttling_is_not_shortened() -> None:
    broker = BrokerConnection(Node(1, "h", 9092), "id")
    broker.throttle(until=9.0)
    broker.throttle(until=4.0)
    assert broker.throttled_until == 9.0
