"""A former leader of the decision log returns an outdated end of the log."""

from collections.abc import Callable, Iterator

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import BrokerUnavailableError, FencedError
from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from spark_kafka_sink.exactly_once.decision_messages import DecisionRecords
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord
from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
from spark_kafka_sink.exactly_once.scope_state import Done
from spark_kafka_sink.exactly_once.steps.abort import abort_batch
from spark_kafka_sink.exactly_once.steps.commit import commit_batch
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
from spark_kafka_sink.exactly_once.steps.scope_log import ScopeLog
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
from tests.integration.exactly_once.simulated_writes import (
    QUERY,
    Writes,
    rows_of,
    stream_to,
    transactions_of,
)
from tests.integration.exactly_once.stepped_client import crash, scope_log

BATCH_WRITE = BatchWrite(query_id=QUERY, batch="0", nonces=frozenset({"0123456789abcdef"}))


class MisledLog(ScopeLog):
    """A log of which one read, by default the first, returns nothing."""

    misled_at = 1
    reads = 0

    def read(self, *, create: bool = False) -> DecisionRecords:
        """See `ScopeLog`."""
        records = super().read(create=create)
        self.reads += 1
        return DecisionRecords("decisions") if self.reads == self.misled_at else records


class UnansweredLog(MisledLog):
    """A log whose decision gets no response before a newer driver fences it."""

    misled_at = 3
    is_decided = False
    fence: Callable[[], object]

    def append(
        self,
        owner: TransactionalProducer,
        record: DecisionRecord | None,
        seconds: float = 0.0,
        before_commit: Callable[[], None] | None = None,
    ) -> TransactionalProducer:
        """See `ScopeLog`."""
        if self.is_decided:
            self.fence()
        owner = super().append(owner, record, seconds, before_commit)
        if self.is_decided:
            return owner
        self.is_decided = True
        raise BrokerUnavailableError("EndTxn got no response")


@pytest.fixture
def query(embedded_broker: EmbeddedBroker, unique_topic: str) -> Writes:
    """Return a stream with its own topic and prefix."""
    return stream_to(embedded_broker, unique_topic)


@pytest.fixture
def misled(query: Writes) -> Iterator[ScopeClient]:
    """Yield a scope client of the stream."""
    with borrowed_client(query.config.producer) as client:
        scope_client = ScopeClient(client, query.config, query.scope)
        scope_log(client, query, scope_client, MisledLog)
        yield scope_client


def test_batch_is_not_decided_twice(query: Writes, misled: ScopeClient) -> None:
    query.committer.commit("0", query.tasks("0"))
    outcome = commit_batch(misled, BATCH_WRITE, transactions_of(query.tasks("0")))
    assert outcome.status is CommitStatus.ALREADY_WRITTEN
    assert query.visible() == rows_of("0")


def test_decided_batch_is_not_aborted(query: Writes, misled: ScopeClient) -> None:
    tasks = transactions_of(query.tasks("0", nonce="0123456789abcdef"))
    crash(query, "0", "after decide", tasks)
    with pytest.raises(BrokerUnavailableError, match="before the latest record"):
        abort_batch(misled, BATCH_WRITE, tasks)
    assert query.committer.recover() == Done(query_id=QUERY, batch="0")
    assert query.visible() == rows_of("0")


def test_fenced_driver_does_not_abort_a_possibly_decided_batch(query: Writes) -> None:
    tasks = transactions_of(query.tasks("0"))
    with borrowed_client(query.config.producer) as client:
        scope_client = ScopeClient(client, query.config, query.scope)
        log = scope_log(client, query, scope_client, UnansweredLog)
        log.fence = scope_client.for_scope(query.scope).fence
        with pytest.raises(FencedError):
            commit_batch(scope_client, BATCH_WRITE, tasks)
    assert query.committer.recover() == Done(query_id=QUERY, batch="0")
    assert query.visible() == rows_of("0")
