"""The exactly-once writers: tasks leave transactions open, and the driver commits all of them.

Unlike at-least-once, a commit may raise: Spark then calls abort(), and the batch runs again or the
query stops. Only the decision log determines whether transactions are committed, so both methods
may be called in any process and more than once.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import TransactionError, text_of
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from spark_kafka_sink.exactly_once.committer import BatchCommitter
from spark_kafka_sink.exactly_once.transactional_id import Scope
from spark_kafka_sink.spark.commit_messages import committed_report, finished_report
from spark_kafka_sink.spark.exactly_once.messages import of_tasks, results_of, transactions_of
from spark_kafka_sink.spark.exactly_once.timeouts import warn_of_long_transactions
from spark_kafka_sink.spark.reports.error_file import Planned
from spark_kafka_sink.spark.reports.publication import Publication
from spark_kafka_sink.spark.shipped_files import with_shipped_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage

    from spark_kafka_sink.config.model import SinkConfig
    from spark_kafka_sink.exactly_once.commit_outcome import CommitOutcome
    from spark_kafka_sink.exactly_once.task_transaction import TaskResult
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.spark.exactly_once.messages import TransactionMessage
    from spark_kafka_sink.spark.exactly_once.task_writer import TransactionalTaskWriter
    from spark_kafka_sink.spark.reports.error_file import WriteOrigin

_LOG = logging.getLogger("spark_kafka_sink")
NOT_VISIBLE = (
    "no transaction of it was committed, so read_committed readers see nothing of what the tasks "
    "that had finished delivered"
)
_MOST_NAMED = 10
"""Maximum transactional ids in a sentence."""


class ExactlyOnceWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, task: TransactionalTaskWriter) -> None:
        self._task = task

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TransactionMessage:  # type: ignore[override]
        """Write one task's rows, given as Arrow batches."""
        with self._task.origin.error_file.kept():
            return self._task.run(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible, all or none.

        Raises:
            KafkaProdError: the write is not committed, or only partially; the message says which.
        """
        with self._task.origin.error_file.kept():
            self._driver().commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the transactions of a failed write, unless they were decided before."""
        self._driver().abort(messages)

    def _driver(self) -> _DriverSide:
        config, scope = self._task.config, self._task.plan.scope
        plan, publication = self._task.plan, Publication.of_write(config, self._task.origin)
        planned = Planned(nonce=plan.nonce, shared=plan.shared)
        return _DriverSide(config, scope, scope.name, publication, planned)


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write, one micro-batch after the other.

    Spark creates one with a task writer to plan a micro-batch, and another without to commit it.
    """

    def __init__(
        self, config: SinkConfig, task: TransactionalTaskWriter | None, origin: WriteOrigin
    ) -> None:
        self._config = config
        self._task = task
        self._origin = origin

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TransactionMessage:  # type: ignore[override]
        """Write one task's rows of a micro-batch, given as Arrow batches."""
        if self._task is None:
            raise TypeError("this writer was made to commit")
        with self._origin.error_file.kept():
            return self._task.run(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make the rows of all tasks of a micro-batch visible, all or none.

        Raises:
            KafkaProdError: it is not committed, or only partially; Spark stops the query.
        """
        with self._origin.error_file.kept(batchId):
            self._driver(batchId).commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort a failed micro-batch, which Spark will run again, unless it was decided before."""
        self._driver(batchId).abort(messages)

    def _driver(self, batch_id: int) -> _DriverSide:
        config = self._config
        scope = Scope.stream(config.exactly_once.transactional_id_prefix)
        publication = Publication.of_micro_batch(config, batch_id, self._origin)
        return _DriverSide(config, scope, str(batch_id), publication)


class _DriverSide:
    """Commit and abort of one batch, with the publication of its report."""

    def __init__(
        self,
        config: SinkConfig,
        scope: Scope,
        batch: str,
        publication: Publication,
        planned: Planned | None = None,
    ) -> None:
        self._config = replace(config, producer=with_shipped_files(config.producer))
        self._scope = scope
        self._batch = batch
        self._publication = publication
        self._planned = planned

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        report = committed_report(messages, self._config.report_tasks)
        ended = of_tasks(messages)
        results = results_of(ended)
        if len(results) != len(messages):
            raise TransactionError(
                f"{len(messages) - len(results)} of {plural(len(messages), 'task')} wrote without "
                "a transaction, and nothing is committed",
                hint="Install the same version of this package on all executors.",
            )
        warn_of_long_transactions(self._publication.name, results, SystemClock().wall_ms())
        outcome = self._committer().commit(self._batch, results, self._plan_of(ended).nonce)
        self._publication.succeed(self._ended(report, outcome, outcome.status.value, results))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        report = finished_report(messages, self._config.report_tasks)
        tasks = of_tasks(messages)
        planned = self._plan_of(tasks)
        try:
            outcome = self._abort(tasks, planned, complete=len(tasks) == len(messages))
        except Exception as error:  # noqa: BLE001 - Spark must raise the batch's own error
            _LOG.warning("%s: %s", self._publication.name, text_of(error))
            left = self._left_open(_ids(tasks, planned), text_of(error))
            self._publication.fail(replace(report, transaction_outcome=left), self._remedy(left))
            return
        left = self._left_open(outcome.left_open, outcome.problem)
        told = f"{outcome.status.value}, but {left}" if left else outcome.status.value
        report = self._ended(report, outcome, told, [each.result for each in tasks])
        if outcome.status is CommitStatus.ABORTED:
            self._publication.fail(report, self._remedy(left))
        else:
            self._publication.succeed(report)

    def _plan_of(self, tasks: Sequence[TransactionMessage]) -> Planned:
        """Return how the batch was planned, according to its tasks or else to planning itself."""
        if self._planned is not None:
            return self._planned
        if tasks:
            return Planned(nonce=tasks[0].nonce, shared=tasks[0].result.shared)
        return self._publication.origin.plan_file.read()

    def _left_open(self, names: Sequence[str], problem: str) -> str:
        """Describe which transactions may be open, and until when; empty if none is."""
        if not names and not problem:
            return ""
        shown = ", ".join(names[:_MOST_NAMED])
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        until = "until it times out" if len(names) == 1 else "until they time out"
        which = f"{plural(len(names), 'transaction')} may be open {until}: {shown}{more}"
        others = f"transactions of tasks that did not finish may be open: {problem}"
        return "; ".join([*([which] if names else []), *([others] if problem else [])])

    def _remedy(self, left: str) -> str:
        """Describe the outcome of a failed batch, and the command to end open transactions."""
        if not left:
            return NOT_VISIBLE
        servers = ",".join(self._config.producer.bootstrap_servers)
        return (
            f"{NOT_VISIBLE}; {left}. They end when the batch has run again, when they time out, or "
            "if no query or job of the prefix runs, by `kafkaprod transactions abort --undecided "
            f"--prefix {self._scope.prefix} --bootstrap-servers {servers}`"
        )

    def _ended(
        self,
        report: DeliveryReport,
        outcome: CommitOutcome,
        told: str,
        results: Sequence[TaskResult],
    ) -> DeliveryReport:
        """Return the report with the outcome, and with the tasks' transactions if it is theirs."""
        theirs = outcome.status in (CommitStatus.COMMITTED, CommitStatus.ABORTED)
        transactions = transactions_of(results, self._config.report_tasks) if theirs else ()
        return replace(report, transaction_outcome=told, transactions=transactions)

    def _abort(
        self, tasks: Sequence[TransactionMessage], planned: Planned, *, complete: bool
    ) -> CommitOutcome:
        # Partitions are irrelevant for an abort, and so is whether a report can be read.
        results, committer = [each.result for each in tasks], self._committer()
        if planned.shared is not None:  # its tasks are fenced when it ends
            return committer.abort_shared(
                self._batch, results, planned.shared, complete=complete, nonce=planned.nonce
            )
        return committer.abort(self._batch, results, complete=complete, nonce=planned.nonce)

    def _committer(self) -> BatchCommitter:
        return BatchCommitter(self._config, self._scope)


def _ids(tasks: Sequence[TransactionMessage], planned: Planned) -> list[str]:
    """Return the transactional ids that are known if abort() itself failed."""
    if planned.shared is not None:
        return [planned.shared.transactional_id]
    written = (each.result.transaction for each in tasks)
    return [each.transactional_id for each in written if each is not None]
