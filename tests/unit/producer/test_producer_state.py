"""Producer id, epoch and sequences: which transitions there are, and what an epoch bump does."""

from __future__ import annotations

from itertools import product

import pytest

from spark_kafka_sink.client.cluster import TopicPartition
from spark_kafka_sink.producer.producer_state import LAST_EPOCH, ProducerIdState, ProducerState

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
ALLOWED = {
    (ProducerIdState.MISSING, ProducerIdState.REQUESTED),
    (ProducerIdState.REQUESTED, ProducerIdState.KNOWN),
    (ProducerIdState.REQUESTED, ProducerIdState.MISSING),
    (ProducerIdState.KNOWN, ProducerIdState.MISSING),
}


def known(epoch: int = 0) -> ProducerState:
    state = ProducerState()
    state.transition_to(ProducerIdState.REQUESTED)
    state.producer_id_granted(7, epoch)
    return state


@pytest.mark.parametrize(("before", "after"), list(product(ProducerIdState, repeat=2)))
def test_only_these_transitions_are_made(before: ProducerIdState, after: ProducerIdState) -> None:
    state = ProducerState(state=before)
    if (before, after) in ALLOWED:
        state.transition_to(after)
        assert state.state is after
        return
    with pytest.raises(AssertionError, match="a producer id cannot go from"):
        state.transition_to(after)


def test_each_partition_has_sequences_of_its_own() -> None:
    state = known()
    assert state.assign_sequence(FIRST, 10) == (7, 0, 0)
    assert state.assign_sequence(FIRST, 5) == (7, 0, 10)
    assert state.assign_sequence(SECOND, 1) == (7, 0, 0)
    assert state.sequences[FIRST].next == 15


def test_sequences_wrap_after_31_bits() -> None:
    state = known()
    state.assign_sequence(FIRST, (1 << 31) - 10)
    assert state.assign_sequence(FIRST, 20).base_sequence == (1 << 31) - 10
    assert state.assign_sequence(FIRST, 1).base_sequence == 10


def test_without_a_producer_id_there_are_no_sequences() -> None:
    with pytest.raises(AssertionError, match="without a producer id"):
        ProducerState().assign_sequence(FIRST, 1)


def test_an_epoch_bump_starts_one_partition_over() -> None:
    state = known()
    state.assign_sequence(FIRST, 10)
    state.assign_sequence(SECOND, 10)
    state.bump_epoch(FIRST)
    assert state.assign_sequence(FIRST, 1) == (7, 1, 0)
    assert state.assign_sequence(SECOND, 1) == (7, 0, 10)


def test_a_session_starts_all_partitions_over() -> None:
    state = known()
    state.begin_session()
    assert state.assign_sequence(FIRST, 10) == (7, 0, 0)
    assert state.assign_sequence(SECOND, 10) == (7, 0, 0)
    state.bump_epoch(FIRST)
    state.begin_session()
    assert state.assign_sequence(FIRST, 1) == (7, 2, 0)
    assert state.assign_sequence(SECOND, 1) == (7, 2, 0)


def test_after_the_last_epoch_a_new_producer_id_is_needed() -> None:
    state = known(LAST_EPOCH)
    state.bump_epoch(FIRST)
    assert state.state is ProducerIdState.MISSING
    state.bump_epoch(SECOND)  # of which nothing is left to be asked for
    assert state.state is ProducerIdState.MISSING
