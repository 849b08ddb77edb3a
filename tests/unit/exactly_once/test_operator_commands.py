"""Which open transactions an operator may abort, by their status in the decision log."""

import pytest

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.exactly_once.open_transactions import DecisionStatus, OpenTransaction
from spark_kafka_sink.exactly_once.operator_commands import ids_to_abort
from spark_kafka_sink.kafka.admin.transaction_description import TransactionDescription
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from tests.support.decisions import ORDERS

OPENED = [
    OpenTransaction(
        description=TransactionDescription(
            transactional_id=status.value,
            state=TransactionState.ONGOING,
            producer_id=1,
            epoch=0,
            timeout_ms=1_000,
            started_ms=0,
        ),
        scope=ORDERS,
        batch="17",
        status=status,
        coordinator=1,
    )
    for status in DecisionStatus
]


@pytest.mark.parametrize(
    ("chosen", "undecided", "aborted"),
    [
        ([], False, ["orphan"]),
        ([], True, ["orphan", "undecided"]),
        (["orphan"], False, ["orphan"]),
        (["orphan"], True, ["orphan"]),
        (["undecided", "orphan"], True, ["orphan", "undecided"]),
    ],
)
def test_abortable(chosen: list[str], *, undecided: bool, aborted: list[str]) -> None:
    assert ids_to_abort(OPENED, chosen, undecided=undecided) == aborted


@pytest.mark.parametrize(
    ("chosen", "undecided", "message"),
    [
        ("decided", True, "decided is decided. Its rows would be lost"),
        ("undecided", False, "undecided is undecided. .* use --undecided"),
        ("driver", True, "driver is a driver's transaction"),
        ("closed", True, "closed is not open"),
    ],
)
def test_not_abortable(chosen: str, message: str, *, undecided: bool) -> None:
    """Nothing is aborted, although another chosen transaction may be."""
    with pytest.raises(TransactionError, match=message):
        ids_to_abort(OPENED, ["orphan", chosen], undecided=undecided)
