"""Commit and abort on the driver, with a fake committer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_sink.common.errors import (
    DeliveryError,
    FencedError,
    TornTransactionError,
    TransactionError,
)
from spark_kafka_sink.common.recreated_topics import WrittenTopic
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.exactly_once.commit_outcome import CommitResult, CommitStatus
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome, TaskResult, TaskTransaction
from spark_kafka_sink.exactly_once.transactional_id import Scope
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion
from spark_kafka_sink.report.delivery_counters import ReportedTransaction
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.file_storage import read_report
from spark_kafka_sink.report.packed_report import PackedReport
from spark_kafka_sink.report.write_status import WriteStatus
from spark_kafka_sink.spark.exactly_once import completion
from spark_kafka_sink.spark.exactly_once.completion import ExactlyOnceCompletion
from spark_kafka_sink.spark.exactly_once.planning import stream_scope
from spark_kafka_sink.spark.exactly_once.transaction_commit_messages import TransactionCommitMessage
from spark_kafka_sink.spark.reports.planning_file import PlanningData, PlanningFile
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
from spark_kafka_sink.spark.writers.commit_messages import CommitMessage

EMPTY = TaskResult(outcome=TaskOutcome.EMPTY, query_id="q", batch="7")
DONE = TransactionCommitMessage(DeliveryReport(tasks=1), EMPTY, "nonce")
OPEN = TransactionalProducer(
    transactional_id="orders/7", producer_id=5, epoch=3, version=TransactionVersion.V2
)
WRITTEN = TransactionCommitMessage(
    DeliveryReport(tasks=1),
    TaskResult(
        outcome=TaskOutcome.WRITTEN,
        query_id="q",
        batch="7",
        transaction=TaskTransaction(transaction=OPEN, started_ms=1_000, timeout_ms=2**40),
    ),
    "nonce",
)


@dataclass
class Committer:
    """Records its calls and returns or raises `answer`."""

    answer: CommitStatus | CommitResult | Exception = CommitStatus.COMMITTED
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def __call__(self, config: SinkConfig, scope: Scope) -> Committer:
        assert config.exactly_once.is_enabled
        self.calls.append((str(scope),))
        return self

    def commit(
        self,
        batch: str,
        results: Sequence[TaskResult],
        nonce: str | None,
        written: Sequence[WrittenTopic],
    ) -> CommitResult:
        assert not written  # brokers without topic ids
        return self._answer(batch, len(results), nonce)

    def abort(
        self, batch: str, results: Sequence[TaskResult], *, complete: bool, nonce: str | None
    ) -> CommitResult:
        return self._answer(batch, len(results), complete, nonce)

    def _answer(self, batch: str, *arguments: object) -> CommitResult:
        self.calls.append((batch, *arguments))
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, CommitResult):
            return self.answer
        return CommitResult(status=self.answer, batch=batch)


@pytest.fixture
def committer(monkeypatch: pytest.MonkeyPatch) -> Committer:
    fake_committer = Committer()
    monkeypatch.setattr(completion, "BatchCommitter", fake_committer)
    return fake_committer


@pytest.fixture
def end(tmp_path: Path) -> ExactlyOnceCompletion:
    return end_with(tmp_path, {})


def end_with(tmp_path: Path, more: dict[str, str]) -> ExactlyOnceCompletion:
    options = {
        "kafka.bootstrap.servers": "localhost:1",
        "deliveryGuarantee": "exactly-once",
        "transactionalIdPrefix": "orders",
        "reportPath": str(tmp_path),
        **more,
    }
    config = SinkConfig.parse(options)
    return ExactlyOnceCompletion(config, WriteOrigin(), stream_scope(config))


def report_at(folder: Path) -> tuple[WriteStatus, str]:
    report = DeliveryReport.from_json(read_report(str(folder / "batch-7.json")))
    return report.status, report.transaction_outcome


def test_commit_is_reported(
    end: ExactlyOnceCompletion, committer: Committer, tmp_path: Path
) -> None:
    end.commit([DONE, DONE], 7)
    assert committer.calls == [("stream orders",), ("7", 2, "nonce")]
    assert report_at(tmp_path) == (WriteStatus.SUCCEEDED, "committed")


@pytest.mark.parametrize("method", ["commit", "abort"])
@pytest.mark.parametrize("status", CommitStatus)
def test_report_contains_the_transactions_by_outcome(
    end: ExactlyOnceCompletion,
    committer: Committer,
    tmp_path: Path,
    method: str,
    status: CommitStatus,
) -> None:
    committer.answer = status
    getattr(end, method)([DONE, WRITTEN], 7)
    report = DeliveryReport.from_json(read_report(str(tmp_path / "batch-7.json")))
    theirs = status in (CommitStatus.COMMITTED, CommitStatus.ABORTED)
    expected = [ReportedTransaction(transactional_id="orders/7", producer_id=5, epoch=3)]
    assert list(report.transactions) == (expected if theirs else [])
    assert report.transaction_outcome == status.value


def test_commit_failure_is_raised_to_spark(
    end: ExactlyOnceCompletion, committer: Committer, tmp_path: Path
) -> None:
    committer.answer = FencedError("a newer driver")
    with pytest.raises(FencedError):
        end.commit([DONE], 7)
    assert not list(tmp_path.iterdir())


def test_rows_without_a_transaction_are_not_committed(
    end: ExactlyOnceCompletion, committer: Committer
) -> None:
    with pytest.raises(TransactionError, match="1 of 2 tasks"):
        end.commit([DONE, CommitMessage(DeliveryReport())], 7)
    with pytest.raises(DeliveryError, match="1 of 2 partitions"):
        end.commit([DONE, None], 7)
    assert not committer.calls


def test_abort_takes_the_plan_from_a_task_or_the_plan_file(
    end: ExactlyOnceCompletion, committer: Committer, tmp_path: Path
) -> None:
    committer.answer = CommitStatus.ABORTED
    end.origin = WriteOrigin(planning_file=PlanningFile(str(tmp_path / "q.planned")))
    end.origin.planning_file.store(
        PlanningData(at="2026-01-02T03:04:05.000+00:00", nonce="planned")
    )
    end.abort([DONE, None], 7)
    end.abort([None, None], 7)
    aborts = [call for call in committer.calls if len(call) > 1]
    assert aborts == [("7", 1, False, "nonce"), ("7", 0, False, "planned")]
    assert report_at(tmp_path) == (WriteStatus.FAILED, "aborted")


def test_abort_names_open_transactions_and_the_command_that_ends_them(
    end: ExactlyOnceCompletion,
    committer: Committer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    committer.answer = CommitResult(
        status=CommitStatus.ABORTED, batch="7", left_open=("orders/a", "orders/b"), problem="why"
    )
    end.abort([DONE, None], 7)
    left = (
        "2 transactions may be open until they time out: orders/a, orders/b; transactions of "
        "tasks that did not finish may be open: why"
    )
    assert report_at(tmp_path) == (WriteStatus.FAILED, f"aborted, but {left}")
    assert (
        "`kafkaprod transactions abort --undecided --prefix orders "
        "--bootstrap-servers localhost:1`" in caplog.text
    )


def test_transactions_of_two_phase_commit_do_not_time_out(
    committer: Committer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    end = end_with(tmp_path, {"twoPhaseCommit": "true"})
    for committer.answer in (
        CommitResult(status=CommitStatus.ABORTED, batch="7", left_open=("orders/a",)),
        FencedError("a newer driver has taken over"),
    ):
        end.abort([DONE, None], 7)
    assert "orders/a" in caplog.text
    assert "time out" not in caplog.text
    assert "times out" not in caplog.text


def test_abort_after_a_decision_reports_a_failure_with_visible_rows(
    end: ExactlyOnceCompletion, committer: Committer, tmp_path: Path
) -> None:
    committer.answer = CommitStatus.ROLLED_FORWARD
    end.abort([DONE, DONE], 7)
    assert committer.calls[1:] == [("7", 2, True, "nonce")]
    assert report_at(tmp_path) == (WriteStatus.FAILED, "rolled forward")


def test_failing_abort_does_not_hide_the_error(
    end: ExactlyOnceCompletion,
    committer: Committer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    committer.answer = FencedError("a newer driver has taken over")
    end.abort([WRITTEN, None], 7)
    status, outcome = report_at(tmp_path)
    assert status is WriteStatus.FAILED
    assert outcome.startswith("1 transaction may be open until it times out: orders/7;")
    assert "micro-batch 7: a newer driver has taken over" in caplog.text
    assert "kafkaprod transactions list" in caplog.text
    assert "no rows" not in caplog.text


def test_abort_of_a_partially_committed_batch(
    end: ExactlyOnceCompletion,
    committer: Committer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    committer.answer = TornTransactionError("2 of 3 transactions are lost")
    end.abort([WRITTEN, None], 7)
    status, outcome = report_at(tmp_path)
    assert (status, "only part of its transactions" in outcome) == (WriteStatus.FAILED, True)
    assert "2 of 3 transactions are lost" in caplog.text
    assert "may be open" not in caplog.text


def test_abort_needs_no_report(end: ExactlyOnceCompletion, committer: Committer) -> None:
    unreadable = TransactionCommitMessage(PackedReport(b"?", b"?"), EMPTY, "nonce")
    end.abort([unreadable, None], 7)
    assert committer.calls[1:]
