"""Requests and answers that get lost on the driver's way: a step is asked again, or found done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import BrokerUnavailableError
from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from tests.integration.exactly_once.writing import PARTITIONS, rows_of, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.exactly_once.writing import Writes

APIS = (
    "find_coordinator",
    "init_producer_id",
    "list_offsets",
    "fetch",
    "describe_transactions",
    "produce",
    "end_txn",
    "list_transactions",
)
QUICK = {
    "kafka.request.timeout.ms": "300",
    "kafka.delivery.timeout.ms": "60000",
    "kafka.retry.backoff.ms": "10",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """Two nodes that can be told to fail."""
    with EmbeddedBroker(nodes=2) as broker:
        yield broker


@pytest.fixture
def query(broker: EmbeddedBroker, unique_topic: str) -> Iterator[Writes]:
    """A stream that has committed its batch 0."""
    broker.create_topic(unique_topic, PARTITIONS)
    made = stream(broker.bootstrap_servers, unique_topic, f"p-{unique_topic}", **QUICK)
    made.committer.commit("0", made.tasks("0"))
    yield made
    broker.faults.clear()


@pytest.mark.parametrize("effect", ["lose-request", "lose-response", "close"])
@pytest.mark.parametrize("api", APIS)
def test_a_message_that_is_lost_costs_time_alone(
    broker: EmbeddedBroker, query: Writes, api: str, effect: str
) -> None:
    results = query.tasks("1")
    broker.faults.add(f"{api}:{effect}:next=1")
    assert query.committer.commit("1", results).status in {
        CommitStatus.COMMITTED,
        CommitStatus.ROLLED_FORWARD,  # of our own decision, whose append was not answered
    }
    broker.faults.clear()
    assert query.visible() == rows_of("0", "1")


@pytest.mark.parametrize("after", range(5))
@pytest.mark.parametrize("effect", ["lose-response", "error=NOT_COORDINATOR"])
def test_each_end_txn_is_asked_again(
    broker: EmbeddedBroker, query: Writes, after: int, effect: str
) -> None:
    """The first is the decision's, then come three tasks, and the last is that of `done`."""
    results = query.tasks("1")
    broker.faults.add(f"end_txn:{effect}:next=2:after={after}")
    query.committer.commit("1", results)
    broker.faults.clear()
    query.committer.commit("2", query.tasks("2"))
    assert query.visible() == rows_of("0", "1", "2")


def test_a_decision_of_which_nothing_is_heard_is_found_by_the_abort(
    broker: EmbeddedBroker, query: Writes
) -> None:
    impatient = stream(
        query.bootstrap_servers,
        query.topic,
        query.scope.prefix,
        **QUICK | {"kafka.max.block.ms": "1500"},
    )
    results = impatient.tasks("1")
    broker.faults.add("end_txn:lose-response:next=20")
    with pytest.raises(BrokerUnavailableError):
        impatient.committer.commit("1", results)
    broker.faults.clear()
    outcome = impatient.committer.abort("1", results, complete=True)
    assert outcome.status is CommitStatus.ROLLED_FORWARD
    assert query.visible() == rows_of("0", "1")
