"""The writers of exactly once: tasks leave transactions open, and the driver commits them all.

A commit that raises is right here: Spark then calls abort(), and the batch runs again or the query
stops. Whether the transactions count is in the decision log alone, so both may be called in any
process and more than once.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import TransactionError, text_of
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from spark_kafka_sink.exactly_once.committer import BatchCommitter
from spark_kafka_sink.exactly_once.scope import Scope
from spark_kafka_sink.exactly_once.task_transaction import rows_of
from spark_kafka_sink.spark.commit_messages import committed_report, finished_report
from spark_kafka_sink.spark.exactly_once.messages import of_tasks, results_of, transactions_of
from spark_kafka_sink.spark.exactly_once.timeouts import warn_of_long_transactions
from spark_kafka_sink.spark.publication import Publication
from spark_kafka_sink.spark.shipped_files import with_shipped_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage

    from spark_kafka_sink.config.model import SinkConfig
    from spark_kafka_sink.exactly_once.commit_outcome import CommitOutcome
    from spark_kafka_sink.exactly_once.task_transaction import TaskResult
    from spark_kafka_sink.protocol.open_transaction import OpenTransaction
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.spark.exactly_once.messages import TransactionMessage
    from spark_kafka_sink.spark.exactly_once.task_writer import TransactionalTaskWriter
    from spark_kafka_sink.spark.reports.write_origin import WriteOrigin

_LOG = logging.getLogger("spark_kafka_sink")
STRAGGLERS_S = 3.0
"""Spark aborts a job while it kills its tasks, and gives their Python workers two seconds to end
(spark.python.task.killTimeout): so long they may begin transactions."""
NOT_VISIBLE = (
    "no transaction of it was committed, so read_committed readers see nothing of what the tasks "
    "that had finished delivered"
)
NOT_ENDED = (
    "its transactions could not be ended: they are when the batch runs again, or when they time out"
)


class ExactlyOnceWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, task: TransactionalTaskWriter) -> None:
        self._task = task

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TransactionMessage:  # type: ignore[override]
        """One task's rows, as Arrow batches."""
        with self._task.origin.error_file.kept():
            return self._task.run(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All tasks are done: make their rows visible, all or none.

        Raises:
            KafkaProdError: the write is not committed, or not wholly; the message says which.
        """
        with self._task.origin.error_file.kept():
            self._driver().commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """The write has failed: abort its transactions, unless they were decided before."""
        self._driver().abort(messages)

    def _driver(self) -> _DriverSide:
        config, scope = self._task.config, self._task.plan.scope
        plan, publication = self._task.plan, Publication.of_write(config, self._task.origin)
        return _DriverSide(config, scope, scope.name, publication, plan.nonce, plan.shared)


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write, one micro-batch after the other.

    Spark makes one to plan a micro-batch, with a task writer, and another to commit it, without.
    """

    def __init__(
        self, config: SinkConfig, task: TransactionalTaskWriter | None, origin: WriteOrigin
    ) -> None:
        self._config = config
        self._task = task
        self._origin = origin

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TransactionMessage:  # type: ignore[override]
        """One task's rows of a micro-batch, as Arrow batches."""
        if self._task is None:
            raise TypeError("this writer was made to commit")
        with self._origin.error_file.kept():
            return self._task.run(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All tasks of a micro-batch are done: make their rows visible, all or none.

        Raises:
            KafkaProdError: it is not committed, or not wholly; Spark stops the query.
        """
        with self._origin.error_file.kept(batchId):
            self._driver(batchId).commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """A micro-batch has failed; Spark will run it again, unless it was decided before."""
        self._driver(batchId).abort(messages)

    def _driver(self, batch_id: int) -> _DriverSide:
        config = self._config
        scope = Scope.stream(config.exactly_once.transactional_id_prefix)
        publication = Publication.of_micro_batch(config, batch_id, self._origin)
        return _DriverSide(config, scope, str(batch_id), publication)


class _DriverSide:
    """Commit and abort of one batch, with what is told of it."""

    def __init__(
        self,
        config: SinkConfig,
        scope: Scope,
        batch: str,
        publication: Publication,
        nonce: str | None = None,
        shared: OpenTransaction | None = None,
    ) -> None:
        self._config = replace(config, producer=with_shipped_files(config.producer))
        self._scope = scope
        self._batch = batch
        self._publication = publication
        self._nonce = nonce
        self._shared = shared

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        report = committed_report(messages, self._config.report_tasks)
        results = results_of(of_tasks(messages))
        if len(results) != len(messages):
            raise TransactionError(
                f"{len(messages) - len(results)} of {plural(len(messages), 'task')} wrote without "
                "a transaction, and nothing is committed",
                hint="Install the same version of this package on all executors.",
            )
        warn_of_long_transactions(self._publication.name, results, SystemClock().wall_ms())
        outcome = self._committer().commit(self._batch, results)
        told = self._told(outcome, rows_of(results))
        self._publication.succeed(self._ended(report, outcome, told, results))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        report = finished_report(messages, self._config.report_tasks)
        try:
            outcome = self._abort(messages)
        except Exception as error:  # noqa: BLE001 - what failed the batch is what Spark is to raise
            _LOG.warning("%s: %s", self._publication.name, text_of(error))
            self._publication.fail(report, NOT_ENDED)
            return
        results = [each.result for each in of_tasks(messages)]
        report = self._ended(report, outcome, outcome.status.value, results)
        if outcome.status is CommitStatus.ABORTED:
            self._publication.fail(report, NOT_VISIBLE)
        else:
            self._publication.succeed(report)

    def _ended(
        self,
        report: DeliveryReport,
        outcome: CommitOutcome,
        told: str,
        results: Sequence[TaskResult],
    ) -> DeliveryReport:
        """With the outcome, and the tasks' transactions where it is theirs."""
        theirs = outcome.status in (CommitStatus.COMMITTED, CommitStatus.ABORTED)
        transactions = transactions_of(results, self._config.report_tasks) if theirs else ()
        return replace(report, transaction_outcome=told, transactions=transactions)

    def _told(self, outcome: CommitOutcome, rows: int | None) -> str:
        """The outcome in words; a batchId is written once, also where a later run has other rows.

        The committer refuses that of streams.
        """
        status = outcome.status.value
        if outcome.rows is None or rows is None or outcome.rows == rows:
            return status
        _LOG.warning(
            "%s has %s now, and was written with %d: they stay as they are, and nothing is "
            "written. Other rows need another batchId",
            self._publication.name,
            plural(rows, "row"),
            outcome.rows,
        )
        return f"{status}, with {plural(outcome.rows, 'row')} where this run has {rows}"

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> CommitOutcome:
        """Abort what is open, and again once no task that was killed can still write."""
        ended = of_tasks(messages)
        # Which partitions they have does not matter to that, nor whether a report can be read.
        results, complete = [each.result for each in ended], len(ended) == len(messages)
        nonce = self._nonce or next((each.nonce for each in ended), None)
        committer = self._committer()
        shared = self._shared or next((each.shared for each in results), None)
        if shared is not None:  # its tasks are fenced when it ends
            return committer.abort_shared(self._batch, results, shared, complete=complete)
        outcome = committer.abort(self._batch, results, complete=complete, nonce=nonce)
        if not complete and nonce is not None:
            time.sleep(STRAGGLERS_S)
            committer.abort(self._batch, results, complete=complete, nonce=nonce)
        return outcome

    def _committer(self) -> BatchCommitter:
        return BatchCommitter(self._config, self._scope)
