"""A session that writes in a transaction begun by its driver."""

from collections.abc import Iterator

import pytest

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.transactions.transaction_settings import (
    SharedTransaction,
    TransactionSettings,
)
from tests.support.harness.coordinator import CoordinatorFault, FakeTransaction
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

DRIVER, CLAIM = "orders/stream", "orders/stream/q/17/0123456789abcdef/3"
INIT, END = ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN


@pytest.fixture(params=[TransactionVersion.V1, TransactionVersion.V2], ids=["V1", "V2"])
def sim(request: pytest.FixtureRequest) -> Iterator[World]:
    cluster = FakeCluster(topics={"t": 4})
    cluster.coordinator.version = int(request.param)
    cluster.coordinator.transactions[DRIVER] = FakeTransaction(producer_id=77, epoch=5)
    producer = TransactionalProducer(
        transactional_id=DRIVER, producer_id=77, epoch=5, version=request.param
    )
    shared = SharedTransaction(producer=producer, claim_id=CLAIM)
    settings = TransactionSettings(transactional_id=DRIVER, timeout_ms=60_000, shared=shared)
    with world(cluster, transaction=settings) as shared_world:
        yield shared_world


def test_session_uses_the_drivers_producer(sim: World) -> None:
    sim.deliver_batches(3)
    coordinator = sim.cluster.coordinator
    assert [request.transactional_id for request in coordinator.requests_for(INIT)] == [CLAIM]
    assert coordinator.transactions[DRIVER].state == "Ongoing"
    assert coordinator.transactions[CLAIM].state == "Empty"
    assert sim.session.has_sent_init_producer_id
    opened = sim.session.flush_transaction()
    assert opened is not None
    assert (opened.transactional_id, opened.producer_id, opened.epoch) == (DRIVER, 77, 5)


def test_session_without_rows_claims_nothing(sim: World) -> None:
    sim.steps(5)
    assert not sim.session.has_sent_init_producer_id
    assert sim.cluster.coordinator.requests == []


@pytest.mark.parametrize("lost", [False, True])
def test_second_attempt_writes_nothing_and_aborts_the_transaction(sim: World, lost: bool) -> None:
    """The response to the first attempt was received or lost."""
    coordinator = sim.cluster.coordinator
    if lost:
        coordinator.faults[INIT].append(CoordinatorFault(lose=True))
    else:
        coordinator.transactions[CLAIM] = FakeTransaction(producer_id=78, epoch=0)
    sim.send_batches(1)
    with pytest.raises(DeliveryError, match="ran a second time"):
        sim.finish()
    assert sim.cluster.seen == []
    assert sim.run_while_stepping(lambda: sim.session.abort_transaction(5.0))
    assert [request.transactional_id for request in coordinator.requests_for(END)] == [DRIVER]
    assert coordinator.transactions[DRIVER].state == "Aborted"


def test_task_that_fails_before_its_claim_does_not_affect_others(sim: World) -> None:
    assert sim.run_while_stepping(lambda: sim.session.abort_transaction(5.0))
    assert sim.cluster.coordinator.requests == []


def test_conflicting_sequences_are_attributed_to_another_task(sim: World) -> None:
    sim.fault(*[Fault(error=ErrorCode.out_of_order_sequence_number)] * 50)
    sim.send_batches(1)
    with pytest.raises(DeliveryError) as caught:
        sim.finish()
    assert "Another task of the batch also writes to this partition" in str(caught.value)
    assert "repartition_by_kafka_partition(df, options)" in str(caught.value)
    assert "read the partition" not in str(caught.value)


def test_newer_driver_is_not_affected(sim: World) -> None:
    sim.deliver_batches(1)
    sim.cluster.coordinator.transactions[DRIVER].epoch = 6
    assert sim.run_while_stepping(lambda: sim.session.abort_transaction(5.0))
    assert sim.cluster.coordinator.transactions[DRIVER].state == "Ongoing"
