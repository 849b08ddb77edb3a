"""Two-phase commit (KIP-939) on brokers that allow it."""

from collections.abc import Iterator

import pytest

from tests.integration.support.transactions import end, settings, transaction
from tests.support.producer_writes import rows
from tests.support.waiting import wait_until
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import by_confluent

ALLOWED = {
    "unstable.api.versions.enable": "true",
    "transaction.two.phase.commit.enable": "true",
    "transaction.max.timeout.ms": "1000",
}


@pytest.fixture(scope="module")
def two_phase_kafka() -> Iterator[KafkaCluster]:
    """Run a node that allows it, and limits other transactions to one second."""
    with KafkaCluster(config=ALLOWED) as kafka:
        yield kafka


def test_two_phase_transactions_do_not_time_out(
    two_phase_kafka: KafkaCluster, unique_topic: str
) -> None:
    kafka = two_phase_kafka
    kafka.admin.create_topic(unique_topic, 1, 1)
    expected = settings(3_600_000, two_phase=True)
    with transaction(kafka.bootstrap_servers, expected) as producer:
        producer.append(rows(unique_topic, [b"v"]))
        producer.flush()
        opened = producer.flush_transaction()
    end(kafka.bootstrap_servers, opened)
    wait_until(lambda: by_confluent(kafka.bootstrap_servers, unique_topic))
    assert [record.value for record in by_confluent(kafka.bootstrap_servers, unique_topic)] == [
        b"v"
    ]
