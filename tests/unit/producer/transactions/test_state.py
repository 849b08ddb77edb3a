"""State transitions of a transaction."""

from itertools import product

import pytest

from spark_kafka_sink.producer.transactions.state import (
    ENDED,
    FAILED,
    ProducerTransactionState,
    next_state,
)

STATE = ProducerTransactionState
ALLOWED = {
    (STATE.UNINITIALIZED, STATE.INITIALIZING),
    (STATE.INITIALIZING, STATE.READY),
    (STATE.INITIALIZING, STATE.UNINITIALIZED),
    (STATE.READY, STATE.IN_TRANSACTION),
    *((alive, STATE.ABORTABLE_ERROR) for alive in STATE if alive not in FAILED),
    *((alive, STATE.FATAL_ERROR) for alive in STATE if alive not in ENDED),
    (STATE.ABORTABLE_ERROR, STATE.ABORTING),
    (STATE.ABORTABLE_ERROR, STATE.ABORTED),
    (STATE.ABORTING, STATE.ABORTED),
}


@pytest.mark.parametrize(("before", "after"), list(product(STATE, repeat=2)))
def test_only_allowed_transitions(before: STATE, after: STATE) -> None:
    if (before, after) in ALLOWED:
        assert next_state(before, after) is after
        return
    with pytest.raises(AssertionError):
        next_state(before, after)


def test_final_states_have_no_successors_and_failures_do_not_recover() -> None:
    assert not [pair for pair in ALLOWED if pair[0] in ENDED]
    assert not [pair for pair in ALLOWED if pair[0] in FAILED and pair[1] not in FAILED]
