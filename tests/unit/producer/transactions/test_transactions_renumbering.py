"""A rejected batch in a transaction: later batches reuse its sequences in the same epoch."""

from collections.abc import Iterator

import pytest

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world
from tests.unit.producer.rejections import record_errors, tolerant

TRANSACTION = TransactionSettings(transactional_id="p-1-aa-0-0", timeout_ms=60_000)
REJECTED = Fault(error=ErrorCode.invalid_record, extra=record_errors(1))
ALL_REJECTED = Fault(error=ErrorCode.invalid_timestamp, extra=record_errors(0, 1, 2))


@pytest.fixture(params=[0, 2], ids=["V1", "V2"])
def sim(request: pytest.FixtureRequest) -> Iterator[World]:
    cluster = FakeCluster(topics={"t": 1, "dead": 1})
    cluster.coordinator.version = request.param
    with world(cluster, tolerant(), transaction=TRANSACTION) as tolerant_world:
        tolerant_world.send([b"first"])
        tolerant_world.finish()
        yield tolerant_world


def log(sim: World) -> list[bytes | None]:
    return sim.cluster.logs["t", 0].values()[1:]


@pytest.mark.parametrize("position", range(5))
@pytest.mark.parametrize("rejection", [REJECTED, ALL_REJECTED], ids=["some", "all"])
def test_remaining_batches_follow_without_a_gap(
    sim: World, position: int, rejection: Fault
) -> None:
    sim.fault(*[None] * position, rejection)
    values = sim.deliver_batches(8)
    first = 3 * position
    bad = range(first, first + 3) if rejection is ALL_REJECTED else [first + 1]
    assert log(sim) == [value for at, value in enumerate(values) if at not in bad]
    assert sim.cluster.logs["dead", 0].values() == [values[at] for at in bad]
    expected = 0
    for epoch, sequence, records in sim.cluster.logs["t", 0].sequences():
        assert (epoch, sequence) == (0, expected)
        expected += records
    assert sim.session.flush_transaction() is not None
    assert all(
        BatchHeader.parse(data).is_transactional for data in sim.cluster.logs["dead", 0].batches
    )


def test_first_batch_of_a_transaction_is_rejected() -> None:
    cluster = FakeCluster(topics={"t": 1, "dead": 1})
    with world(cluster, tolerant(), transaction=TRANSACTION) as sim:
        sim.fault(REJECTED)
        values = sim.deliver_batches(4)
        assert cluster.logs["t", 0].values() == [values[0], *values[2:]]
        assert [sequence for _, sequence, _ in sim.cluster.logs["t", 0].sequences()] == [0, 2, 5, 8]


@pytest.mark.parametrize(
    "doubt",
    [
        Fault(error=ErrorCode.request_timed_out, append=True),
        Fault(error=ErrorCode.request_timed_out),
        Fault(error=ErrorCode.not_enough_replicas_after_append, append=True),
    ],
    ids=["timed out", "timed out, nothing appended", "too few replicas"],
)
def test_possibly_appended_batch_after_a_rejected_one_fails_the_transaction(
    sim: World, doubt: Fault
) -> None:
    """No broker should accept a batch in spite of the gap, but the session does not rely on it."""
    sim.fault(REJECTED, doubt)
    sim.send_batches(4)
    with pytest.raises(DeliveryError, match="may already be in the log"):
        sim.finish()
    with pytest.raises(DeliveryError):
        sim.session.flush_transaction()


def test_accepted_batch_after_a_rejected_one_fails_the_transaction(sim: World) -> None:
    """A broker without producer state accepts any sequence."""
    sim.cluster.logs["t", 0].producers.clear()
    sim.fault(REJECTED)
    sim.send_batches(4)
    with pytest.raises(DeliveryError) as caught:
        sim.finish()
    assert caught.value.kafka_error == "OUT_OF_ORDER_SEQUENCE_NUMBER"


@pytest.mark.parametrize("code", [ErrorCode.message_too_large, ErrorCode.invalid_record])
def test_halves_keep_their_sequences(sim: World, code: int) -> None:
    sim.fault(None, Fault(error=code))
    values = sim.deliver_batches(5)
    assert log(sim) == values
    assert {epoch for epoch, _, _ in sim.cluster.logs["t", 0].sequences()} == {0}


def test_recreated_topic_fails_the_transaction() -> None:
    """Transactions V2 use topic ids; for V1, the metadata must show the recreation."""
    with world(FakeCluster(topics={"t": 1}), transaction=TRANSACTION) as sim:
        sim.deliver([b"first"])
        sim.cluster.create("t", 1)
        sim.send_batches(2)
        with pytest.raises(DeliveryError, match=r"recreated.*cannot be committed") as caught:
            sim.finish()
        assert caught.value.topic == "t"


def test_recreated_topic_in_metadata_fails_the_transaction(sim: World) -> None:
    """The new topic is detected although nothing more is written to it."""
    sim.cluster.create("t", 1)
    sim.client.metadata.request_refresh()
    state = sim.buffer.state
    sim.run(lambda: state.error is not None)
    with pytest.raises(DeliveryError) as caught:
        sim.session.flush_transaction()
    assert caught.value is state.error
    assert caught.value.topic == "t"
