"""The attempts to connect to one broker."""

from spark_kafka_sink.kafka.client.broker_connection import BrokerConnection
from spark_kafka_sink.kafka.client.channel.transport import ChannelState
from spark_kafka_sink.kafka.client.cluster_snapshot import Node


def test_ready_broker_has_no_failures() -> None:
    broker = BrokerConnection(Node(1, "h", 9092), "id")
    broker.back_off(retry_at=5.0)
    broker.back_off(retry_at=9.0)
    broker.start_step(ChannelState.CONNECTING, now=9.0, deadline=19.0)
    assert (broker.end_attempt(), broker.failures, broker.retry_at) == (False, 2, 9.0)
    broker.protocol.state = ChannelState.READY
    assert (broker.end_attempt(), broker.failures, broker.connect_by) == (True, 0, 0.0)
    assert not broker.end_attempt()


def test_throttling_is_not_shortened() -> None:
    broker = BrokerConnection(Node(1, "h", 9092), "id")
    broker.throttle(until=9.0)
    broker.throttle(until=4.0)
    assert broker.throttled_until == 9.0
