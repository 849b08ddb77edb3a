"""Brokers that break the rules of transactions stop the write; nothing is written twice."""

from collections import Counter
from itertools import count
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import ConfigError, TransactionError
from spark_kafka_sink.kafka.client.node_api_versions import NodeApiVersions
from spark_kafka_sink.kafka.logs import log_reader
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, end_txn_values
from spark_kafka_sink.kafka.protocol.versions import ApiKey, UnsupportedApiError
from spark_kafka_sink.kafka.records.committed_records import CommittedRecords
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from tests.integration.exactly_once.simulated_writes import Writes, rows_of, stream_to
from tests.integration.exactly_once.stepped_client import crash


@pytest.fixture
def query(embedded_broker: EmbeddedBroker, unique_topic: str) -> Writes:
    """Return a stream with its own topic, prefix and decision log."""
    return stream_to(embedded_broker, unique_topic, decisionLogTopic=f"log-{unique_topic}")


def test_open_transaction_after_fencing_stops_the_write(
    query: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without markers, a written batch looks unwritten."""
    usual = CommittedRecords.add

    def add(self: CommittedRecords, batch: bytes, header: BatchHeader, start: int = 0) -> None:
        if not header.is_control:
            usual(self, batch, header, start)

    monkeypatch.setattr(CommittedRecords, "add", add)
    query.committer.commit("0", query.tasks("0"))
    with pytest.raises(TransactionError, match="log contains an open transaction of stream"):
        query.committer.commit("0", query.tasks("0"))
    assert query.visible() == rows_of("0")


def test_records_that_cannot_be_read_back_stop_the_write(
    query: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> log_reader.LogRead:
        position = log_reader.Position(topic_id=None, offset=0)
        return log_reader.LogRead((), position, restarted=False)

    query.committer.recover()
    monkeypatch.setattr(log_reader.LogReader, "read", read)
    with pytest.raises(TransactionError, match="does not contain the records"):
        query.committer.commit("0", query.tasks("0"))
    assert query.visible() == Counter()


@pytest.mark.parametrize("rolled_forward", [False, True])
def test_decision_that_is_not_committed_stops_the_write(
    query: Writes, monkeypatch: pytest.MonkeyPatch, rolled_forward: bool
) -> None:
    """The decision is the first one, or follows the roll-forward of an earlier one."""
    batch = "1" if rolled_forward else "0"
    if rolled_forward:
        crash(query, "0", "after decide")
    usual, earlier = end_txn_values, count(-int(rolled_forward))

    def end(transaction: TransactionalProducer, *, commit: bool) -> dict[str, Any]:
        is_decision = transaction.transactional_id.endswith("/stream") and next(earlier) >= 0
        return dict(usual(transaction, commit=commit and not is_decision))

    monkeypatch.setattr("spark_kafka_sink.kafka.admin.transaction_handlers.end_txn_values", end)
    with pytest.raises(TransactionError, match=r"confirmed a decision .* does not contain it"):
        query.committer.commit(batch, query.tasks(batch))
    assert query.visible() == (rows_of("0") if rolled_forward else Counter())


@pytest.mark.parametrize("api", [ApiKey.END_TXN, ApiKey.FIND_COORDINATOR, ApiKey.FETCH])
def test_missing_api_is_named_before_the_first_row(
    query: Writes, monkeypatch: pytest.MonkeyPatch, api: ApiKey
) -> None:
    usual = NodeApiVersions.latest_usable

    def version(self: NodeApiVersions, requested: ApiKey, cap: int | None = None) -> int:
        if requested is api:
            raise UnsupportedApiError(f"the broker does not support {api.name}")
        return usual(self, requested, cap)

    monkeypatch.setattr(NodeApiVersions, "latest_usable", version)
    with pytest.raises(ConfigError, match=f"exactly-once requires {api.name}"):
        query.committer.recover()
