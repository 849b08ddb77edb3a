"""Real brokers that lose producer state between two tasks, or whose responses are lost."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from random import randbytes

import pytest
from confluent_kafka import TopicPartition as ForeignPartition

from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from tests.integration.admin.conftest import connected
from tests.support.producer_writes import rows, write_task
from tests.support.waiting import wait_until
from tools.support.readers import by_confluent
from tools.torture.cluster import ProxiedKafka
from tools.torture.proxy_faults import Fault, Schedule

TIMEOUT_S = 60
IN_FLIGHT = {"batch_size": 900, "linger_ms": 1000}
"""Up to five batches are in flight."""
FORGETFUL = {"producer.id.expiration.ms": "500", "producer.id.expiration.check.interval.ms": "50"}
VALUES = [b"%02d" % number + b"." * 398 for number in range(40)]
"""Written in batches of two."""


class FaultSchedule(Schedule):
    """Faults for the next Produce requests; rejected requests do not reach the broker."""

    def __init__(self, *faults: Fault | None) -> None:
        super().__init__(seed=0, kinds=(), rate=0)
        self.next = deque(faults)

    def draw(self, node: int, *, produce: bool) -> Fault | None:  # noqa: ARG002
        return self.next.popleft() if produce and self.next else None

    def code(self, node: int, fault: Fault) -> int:  # noqa: ARG002
        return ErrorCode.not_enough_replicas


class FaultyCluster(ProxiedKafka):
    """Two nodes; clients that use `proxied_servers` reach both through proxies."""

    def __init__(self) -> None:
        super().__init__(nodes=2, config=FORGETFUL)

    def inject(self, *faults: Fault | None) -> None:
        """Inject faults into the next Produce requests to each broker."""
        for proxy in self.proxies.values():
            proxy.schedule = FaultSchedule(*faults)


@pytest.fixture(scope="module")
def kafka() -> Iterator[FaultyCluster]:
    with FaultyCluster() as cluster:
        yield cluster


def await_producer_expiration(kafka: FaultyCluster, topic: str) -> None:
    """Wait until the leader has no producer state for the topic."""
    location = TopicPartition(topic, 0)
    with connected(kafka) as client:
        admin = TransactionAdmin(client)
        wait_until(lambda: not admin.describe_producers([location], client.deadline(60))[location])


def delete_all(kafka: FaultyCluster, topic: str, count: int) -> None:
    """Delete all records."""
    client = kafka.admin.client()
    requested = [ForeignPartition(topic, 0, count)]
    for response in client.delete_records(requested).values():
        response.result(TIMEOUT_S)


def after_expiration(kafka: FaultyCluster, topic: str) -> None:
    """Write nothing for longer than producer.id.expiration.ms."""
    await_producer_expiration(kafka, topic)


def after_leader_change(kafka: FaultyCluster, topic: str) -> None:
    """Delete all records and elect a replica that has no state of the producer."""
    delete_all(kafka, topic, len(VALUES))
    kafka.admin.move_leader(topic, 0, 3 - kafka.admin.leader(topic))
    await_producer_expiration(kafka, topic)


def after_deletion(kafka: FaultyCluster, topic: str) -> None:
    """Delete all records, as retention does."""
    delete_all(kafka, topic, len(VALUES))


@pytest.mark.parametrize("lost", [after_expiration, after_deletion, after_leader_change])
def test_order_after_producer_state_is_lost(
    kafka: FaultyCluster, unique_topic: str, lost: Callable[[FaultyCluster, str], None]
) -> None:
    """A broker rejects the first batch of the second task and accepts the others."""
    kafka.admin.create_topic(unique_topic, 1)
    kafka.inject()
    options = IN_FLIGHT | {"client_id": unique_topic}
    first = write_task(kafka.proxied_servers, rows(unique_topic, VALUES), **options)
    assert first.persisted == len(VALUES)
    lost(kafka, unique_topic)
    kafka.inject(Fault.REFUSE)
    later = [b"later-" + value for value in VALUES]
    second = write_task(kafka.proxied_servers, rows(unique_topic, later), **options)
    assert second.persisted == len(later)
    written = [record.value for record in by_confluent(kafka.bootstrap_servers, unique_topic)]
    assert written == [*(VALUES if lost is after_expiration else []), *later]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_batch_size_limit_with_lost_responses(
    kafka: FaultyCluster, unique_topic: str, codec: str
) -> None:
    """Timestamps in the future prevent the expiration of the producer state.

    Without the state, the broker would accept the last, small batch before the rejected ones.
    """
    kafka.admin.create_topic(unique_topic, 1, configs={"max.message.bytes": "1500"})
    kafka.inject(Fault.LOSE_RESPONSE, Fault.LOSE_RESPONSE)
    values = [b"%03d" % number + randbytes(400) for number in range(60)]
    options = {"batch_size": 8_000, "linger_ms": 1000, "compression_type": codec}
    later_ms = [int(time.time() * 1000) + TIMEOUT_S * 1000] * len(values)
    data = rows(unique_topic, values, timestamps=later_ms)
    assert write_task(kafka.proxied_servers, data, **options).persisted == len(values)
    written = [record.value for record in by_confluent(kafka.bootstrap_servers, unique_topic)]
    assert written == values
