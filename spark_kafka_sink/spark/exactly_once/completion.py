"""Commit and abort of an exactly-once write on the driver.

Unlike at-least-once, a commit may raise: Spark then calls abort(), and the batch runs again or the
query stops. Only the decision log determines whether transactions are committed, so commit() and
abort() may be called in any process and more than once.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.exactly_once.commit_outcome import CommitResult, CommitStatus
from spark_kafka_sink.exactly_once.committer import BatchCommitter
from spark_kafka_sink.spark.exactly_once.outcome_text import VISIBLE, OutcomeText
from spark_kafka_sink.spark.exactly_once.transaction_commit_messages import (
    TransactionCommitMessage,
    of_tasks,
    results_of,
    transactions_of,
)
from spark_kafka_sink.spark.exactly_once.transaction_timeouts import warn_of_long_transactions
from spark_kafka_sink.spark.reports.planning_file import PlanningData
from spark_kafka_sink.spark.runtime.worker_context import with_shipped_files
from spark_kafka_sink.spark.writers import commit_messages
from spark_kafka_sink.spark.writers.write_completion import WriteCompletion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.exactly_once.task_transaction import TaskResult
    from spark_kafka_sink.exactly_once.transactional_id import Scope
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.spark.reports.write_origin import WriteOrigin

_LOG = logging.getLogger(__name__)
_CLOCK = SystemClock()


class ExactlyOnceCompletion(WriteCompletion):
    """Commit and abort of an exactly-once write.

    Args:
        config: the sink's settings.
        origin: origin of the write.
        scope: scope of the write.
        planned: how the write was planned; None for a stream, which another process plans.
    """

    def __init__(
        self,
        config: SinkConfig,
        origin: WriteOrigin,
        scope: Scope,
        planned: PlanningData | None = None,
    ) -> None:
        super().__init__(config, origin)
        self._scope = scope
        self._planned = planned
        self._text = OutcomeText(
            prefix=scope.prefix,
            servers=config.producer.bootstrap_servers,
            may_time_out=not config.exactly_once.two_phase_commit,
        )

    def commit(self, messages: Sequence[object], batch_id: int | None = None) -> DeliveryReport:
        """Make the rows of all tasks visible, or the rows of none.

        Raises:
            KafkaProdError: the batch is not committed, or only partially; see the message.
        """
        with self.origin.error_file.storing_errors():
            return self._commit_batch(messages, batch_id)

    def abort(
        self,
        messages: Sequence[object],
        batch_id: int | None = None,
        error: errors.KafkaProdError | None = None,
    ) -> None:
        """Abort the transactions of a failed batch, unless the batch was already decided."""
        publication = self.publication(batch_id, error)
        report = commit_messages.finished_report(messages, self.config.report_tasks)
        tasks = of_tasks(messages)
        planned = self._planning_data_of(tasks)
        complete = len(tasks) == len(messages)
        try:
            result = self._abort_tasks(
                tasks, planned, self._batch_label(batch_id), complete=complete
            )
        except Exception as problem:  # noqa: BLE001 - the batch's own error must be raised
            _LOG.warning("%s: %s", publication.name, errors.error_text(problem))
            text, remedy = self._text.failed_abort(problem, _known_ids(tasks, planned))
            publication.fail(replace(report, transaction_outcome=text), remedy)
            return
        still_open = self._text.open_transactions(result.left_open, result.problem)
        text = f"{result.status.value}, but {still_open}" if still_open else result.status.value
        if not still_open:
            self.origin.planning_file.mark_ended(planned.nonce)
        report = self._with_result(report, result, text, [task.result for task in tasks])
        is_aborted = result.status is CommitStatus.ABORTED
        publication.fail(report, self._text.aborted(still_open) if is_aborted else VISIBLE)

    def give_up(self, planned: PlanningData) -> None:
        """Abort the transactions of an earlier planning of the query, unless they are decided.

        Neither its commit() nor its abort() has completed: stop() may interrupt Spark before it
        calls abort(). As in abort(), the abort flag stops a commit() that is still running.
        """
        try:
            result = self._abort_tasks((), planned, self._scope.name, complete=False)
            still_open = self._text.open_transactions(result.left_open, result.problem)
        except Exception as error:  # noqa: BLE001 - it must not fail the batch that is planned
            still_open = self._text.open_transactions(
                _known_ids((), planned), errors.error_text(error)
            )
        if still_open:
            _LOG.warning(
                "%s: an earlier micro-batch was neither committed nor aborted; %s. They end when "
                "the query's next micro-batch is committed%s",
                self._scope,
                still_open,
                self._text.or_timeout,
            )

    def _commit_batch(self, messages: Sequence[object], batch_id: int | None) -> DeliveryReport:
        publication = self.publication(batch_id)
        report = commit_messages.complete_report(messages, self.config.report_tasks)
        ended = of_tasks(messages)
        results = results_of(ended)
        if len(results) != len(messages):
            raise errors.TransactionError(
                f"{len(messages) - len(results)} of {plural(len(messages), 'task')} wrote without "
                "a transaction: nothing is committed",
                hint="Install the same version of this package on all executors.",
            )
        warn_of_long_transactions(publication.name, results, _CLOCK.wall_ms())
        nonce = self._planning_data_of(ended).nonce
        batch = self._batch_label(batch_id)
        written = commit_messages.written_topics(messages)
        result = self._new_committer().commit(batch, results, nonce, written)
        self.origin.planning_file.mark_ended(nonce)
        completed = self._with_result(report, result, result.status.value, results)
        return publication.succeed(completed)

    def _batch_label(self, batch_id: int | None) -> str:
        """Return the batch number of a stream, otherwise the name of the scope."""
        return self._scope.name if batch_id is None else str(batch_id)

    def _planning_data_of(self, tasks: Sequence[TransactionCommitMessage]) -> PlanningData:
        """Return the planning data from the tasks' results, otherwise from the planning file."""
        if self._planned is not None:
            return self._planned
        if tasks:
            return PlanningData(nonce=tasks[0].nonce, shared=tasks[0].result.shared)
        return self.origin.planning_file.read()

    def _with_result(
        self,
        report: DeliveryReport,
        result: CommitResult,
        text: str,
        results: Sequence[TaskResult],
    ) -> DeliveryReport:
        """Return the report with the result, and with the transactions to which it applies.

        If another run has written the batch, the tasks count as having skipped it.
        """
        if result.is_superseded:
            report = _without_counters(report)
        theirs = result.status in (CommitStatus.COMMITTED, CommitStatus.ABORTED)
        transactions = transactions_of(results, self.config.report_tasks) if theirs else ()
        return replace(report, transaction_outcome=text, transactions=transactions)

    def _abort_tasks(
        self,
        tasks: Sequence[TransactionCommitMessage],
        planned: PlanningData,
        batch: str,
        *,
        complete: bool,
    ) -> CommitResult:
        results = [task.result for task in tasks]
        committer = self._new_committer()
        nonce = planned.nonce
        if planned.shared is not None:
            # The end of the shared transaction fences all tasks. Only the report needs the
            # partitions; executors with a different version may omit them.
            with suppress(Exception):
                results = results_of(tasks)
            return committer.abort_shared(
                batch, results, planned.shared, complete=complete, nonce=nonce
            )
        return committer.abort(batch, results, complete=complete, nonce=nonce)

    def _new_committer(self) -> BatchCommitter:
        located = replace(self.config, producer=with_shipped_files(self.config.producer))
        return BatchCommitter(located, self._scope)


def _without_counters(report: DeliveryReport) -> DeliveryReport:
    """Return a report without counters, for tasks whose rows are not visible."""
    kept = ("started_at", "startup_ms", "query_name", "query_id", "batch_id")
    return type(report)(**{name: getattr(report, name) for name in kept})


def _known_ids(tasks: Sequence[TransactionCommitMessage], planned: PlanningData) -> list[str]:
    """Return the transactional ids that are still known after abort() itself has failed."""
    if planned.shared is not None:
        return [planned.shared.transactional_id]
    written = (task.result.transaction for task in tasks)
    return [transaction.transactional_id for transaction in written if transaction is not None]
