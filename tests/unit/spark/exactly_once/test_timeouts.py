from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.task_transaction import (
    TaskOutcome,
    TaskResult,
    TaskTransaction,
)
from spark_kafka_sink.protocol.open_transaction import OpenTransaction
from spark_kafka_sink.protocol.transaction_version import TransactionVersion
from spark_kafka_sink.spark.exactly_once.timeouts import oldest, warn_of_long_transactions

if TYPE_CHECKING:
    import pytest


def _written(started_ms: int, timeout_ms: int = 60_000) -> TaskResult:
    transaction = TaskTransaction(
        transaction=OpenTransaction(
            transactional_id="t", producer_id=1, epoch=0, version=TransactionVersion.V2
        ),
        started_ms=started_ms,
        timeout_ms=timeout_ms,
    )
    return TaskResult(
        outcome=TaskOutcome.WRITTEN, query_id=None, batch="b", transaction=transaction
    )


EMPTY = TaskResult(outcome=TaskOutcome.EMPTY, query_id=None, batch="b")


def test_the_transaction_nearest_to_its_timeout_counts() -> None:
    results = [_written(90_000), _written(70_000), EMPTY, _written(10_000, 900_000)]
    assert oldest(results, 100_000) == (0.5, 30_000, 60_000)
    assert oldest([EMPTY], 100_000) == (0.0, 0, 0)


def test_half_of_the_timeout_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_long_transactions("micro-batch 7", [_written(71_000)], 100_000)
    assert not caplog.records
    warn_of_long_transactions("micro-batch 7", [_written(70_000)], 100_000)
    assert caplog.messages[0].startswith(
        "micro-batch 7: its oldest transaction was open for 30 s of the 60 s"
    )
