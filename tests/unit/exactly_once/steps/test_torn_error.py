"""The error of a torn batch."""

import pickle
from dataclasses import replace

import pytest

from spark_kafka_sink.exactly_once.decision_record import Fate
from spark_kafka_sink.exactly_once.scope_state import Decided
from spark_kafka_sink.exactly_once.steps.torn_error import torn_error
from spark_kafka_sink.exactly_once.transactional_id import Scope
from tests.support.decisions import ORDERS, task_transactions

DECIDED = Decided(query_id="q", batch="17", transactions=task_transactions(2, partitions=2))
FIRST, SECOND = (transaction.transactional_id for transaction in DECIDED.transactions)


def test_unlisted_partitions_are_counted() -> None:
    first, second = DECIDED.transactions
    some = replace(
        second, partitions=second.partitions[:1], unlisted_partitions=1, unlisted_records=10
    )
    many = replace(DECIDED, transactions=(first, some))
    details = torn_error(ORDERS, many, (Fate.COMMITTED, Fate.LOST)).details
    assert "  and 1 more partition: 10 records" in details


def test_error_lists_lost_and_persisted_rows() -> None:
    error = torn_error(ORDERS, DECIDED, (Fate.COMMITTED, Fate.LOST))
    assert error.message == (
        "batch 17 of stream orders is torn: 1 of 2 decided transactions can no longer be committed"
    )
    assert "resetTransactionalState=true" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert str(again).splitlines()[1:] == [
        f"  lost: {SECOND}, 20 records",
        "    events-0: 10 records, offsets 0 to 9",
        "    events-1: 10 records, offsets 0 to 9",
        f"  committed: {FIRST}, 20 records",
    ]


def test_long_list_is_truncated() -> None:
    many = Decided(query_id="q", batch="17", transactions=task_transactions(100))
    lines = str(torn_error(ORDERS, many, (Fate.LOST,) * 100)).splitlines()
    assert lines[51] == "  and 150 more lines in the decision log"


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        (ORDERS, "--prefix orders --accept-loss 'orders/stream'` lets the query continue"),
        (
            Scope.batch("a", "b c"),
            "--prefix a --accept-loss 'a/batch/b%20c/topic-column'` marks the batch as written",
        ),
        (Scope.run("a"), "removes them. To prevent this, raise transaction.timeout.ms"),
    ],
)
def test_error_explains_how_to_continue(scope: Scope, words: str) -> None:
    assert words in str(torn_error(scope, DECIDED, (Fate.COMMITTED, Fate.LOST)))


def test_topic_is_read_if_brokers_do_not_know_the_transaction() -> None:
    for fate in Fate:
        text = str(torn_error(ORDERS, DECIDED, (Fate.LOST, fate)))
        assert ("a transaction with an unknown outcome" in text) == (fate is Fate.UNKNOWN)
