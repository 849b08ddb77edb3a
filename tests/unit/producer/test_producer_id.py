"""Producer id, epoch and sequences: state transitions and epoch bumps."""

from itertools import product
from threading import RLock

import pytest

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.buffer.batch_queues import BatchQueues
from spark_kafka_sink.producer.producer_id import LAST_EPOCH, ProducerIdentity, ProducerIdState
from spark_kafka_sink.producer.send.session_partitions import SessionPartitions
from tests.support.harness.fake import FakeCluster
from tests.support.harness.world import world

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
ALLOWED = {
    (ProducerIdState.MISSING, ProducerIdState.REQUESTED),
    (ProducerIdState.REQUESTED, ProducerIdState.KNOWN),
    (ProducerIdState.REQUESTED, ProducerIdState.MISSING),
    (ProducerIdState.KNOWN, ProducerIdState.MISSING),
}


def known(epoch: int = 0) -> ProducerIdentity:
    state = ProducerIdentity()
    state.transition_to(ProducerIdState.REQUESTED)
    state.set_producer_id(7, epoch)
    return state


@pytest.mark.parametrize(("before", "after"), list(product(ProducerIdState, repeat=2)))
def test_only_allowed_transitions(before: ProducerIdState, after: ProducerIdState) -> None:
    state = ProducerIdentity(state=before)
    if (before, after) in ALLOWED:
        state.transition_to(after)
        assert state.state is after
        return
    with pytest.raises(AssertionError):
        state.transition_to(after)


def batch(partition: TopicPartition, records: int) -> ProducerBatch:
    filled = ProducerBatch(partition, 0.0, 0, 0)
    filled.add(b"", records, 0)
    return filled


class Numbering:
    """Partitions that number the batches of one producer."""

    def __init__(self, producer: ProducerIdentity) -> None:
        self.producer = producer
        self.states = SessionPartitions(BatchQueues(RLock()))

    def assign(self, partition: TopicPartition, records: int) -> tuple[int, int, int]:
        assigned = batch(partition, records)
        assert self.states.of(partition).assign_sequence(assigned, self.producer)
        assert not self.states.of(partition).assign_sequence(assigned, self.producer)  # a retry
        return assigned.producer_id, assigned.epoch, assigned.sequence


def test_sequences_wrap_after_31_bits() -> None:
    numbering = Numbering(known())
    numbering.assign(FIRST, (1 << 31) - 10)
    assert numbering.assign(FIRST, 20)[2] == (1 << 31) - 10
    assert numbering.assign(FIRST, 1)[2] == 10


def test_sequences_require_a_producer_id() -> None:
    with pytest.raises(AssertionError):
        Numbering(ProducerIdentity()).assign(FIRST, 1)


def test_session_resets_all_partitions_in_an_unused_epoch() -> None:
    producer = known()
    producer.begin_session()
    first = Numbering(producer)
    assert first.assign(FIRST, 10) == (7, 0, 0)
    assert first.assign(SECOND, 10) == (7, 0, 0)
    first.states.of(FIRST).renumber(producer)
    assert first.assign(FIRST, 10) == (7, 1, 0)
    producer.begin_session()
    second = Numbering(producer)
    assert second.assign(FIRST, 1) == (7, 2, 0)
    assert second.assign(SECOND, 1) == (7, 2, 0)


def test_epoch_without_sequences_is_not_skipped() -> None:
    producer = known()
    first = Numbering(producer)
    first.assign(FIRST, 10)
    first.assign(SECOND, 10)
    first.states.of(FIRST).renumber(producer)
    producer.begin_session()
    assert Numbering(producer).assign(SECOND, 1) == (7, 1, 0)


def test_new_producer_id_is_needed_after_the_last_epoch() -> None:
    state = known(LAST_EPOCH)
    state.bump_epoch()
    assert state.state is ProducerIdState.MISSING
    state.bump_epoch()  # the new id is still missing
    assert state.state is ProducerIdState.MISSING


@pytest.mark.parametrize("nodes", [1, 3])
def test_second_closed_connection_is_an_error_that_names_the_api(nodes: int) -> None:
    cluster = FakeCluster(nodes, {"t": 4})
    cluster.closing[ApiKey.INIT_PRODUCER_ID] = 99
    with world(cluster, load_metadata=False) as sim:
        sim.send_batches(8, None)
        began = sim.clock.monotonic()
        with pytest.raises(ProtocolError, match=r"closed the connection twice .* INIT_PRODUCER_ID"):
            sim.finish()
        assert sim.clock.monotonic() < began + 5


@pytest.mark.parametrize("restarts", [0, 3])
def test_first_closed_connection_only_costs_time(restarts: int) -> None:
    cluster = FakeCluster(1, {"t": 4})
    cluster.closing[ApiKey.INIT_PRODUCER_ID] = 1
    with world(cluster, load_metadata=False) as sim:
        values = sim.send_batches(8, None)
        for _ in range(restarts):
            sim.run(lambda: not cluster.closing[ApiKey.INIT_PRODUCER_ID])
            cluster.stop(1)
            sim.steps(50)
            cluster.alive.add(1)
            cluster.closing[ApiKey.INIT_PRODUCER_ID] = 1
        sim.finish()
        written = [value for log in cluster.logs.values() for value in log.values()]
        assert sorted(map(str, written)) == sorted(map(str, values))
