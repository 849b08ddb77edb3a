"""Planning, commit and abort of an exactly-once write on the driver.

Planning finishes earlier decisions. It fences no other driver, except with atomicBatch=true: in
that case, it begins the single transaction of the batch. Spark plans and commits in different
processes.

Unlike at-least-once, a commit may raise: Spark then calls abort(), and the batch runs again or the
query stops. Only the decision log determines whether transactions are committed, so commit() and
abort() may be called in any process and more than once.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.enums import Summary
from spark_kafka_sink.exactly_once.commit_outcome import CommitOutcome, CommitStatus
from spark_kafka_sink.exactly_once.committer import BatchCommitter
from spark_kafka_sink.exactly_once.scope_state import Nothing
from spark_kafka_sink.exactly_once.transactional_id import Scope, ScopeKind, WriteTarget, new_nonce
from spark_kafka_sink.spark.exactly_once.exactly_once_plan import ExactlyOncePlan
from spark_kafka_sink.spark.exactly_once.exactly_once_task import TransactionalTaskWriter
from spark_kafka_sink.spark.exactly_once.transaction_commit_messages import (
    TransactionCommitMessage,
    of_tasks,
    results_of,
    transactions_of,
)
from spark_kafka_sink.spark.exactly_once.transaction_timeouts import (
    transaction_timeout_ms,
    warn_of_long_transactions,
)
from spark_kafka_sink.spark.reports.abort_files import PlanningData
from spark_kafka_sink.spark.runtime import internals
from spark_kafka_sink.spark.runtime.log_lines import log_success
from spark_kafka_sink.spark.runtime.worker_context import with_shipped_files
from spark_kafka_sink.spark.writers import commit_messages
from spark_kafka_sink.spark.writers.write_completion import WriteCompletion, WriteJob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.exactly_once.task_transaction import TaskResult
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
    from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles


_ASYNC_PROGRESS: Final = "asyncProgressTrackingEnabled"
"""Option of Spark's ``AsyncProgressTrackingMicroBatchExecution``, which starts a batch before the
previous batch is recorded.
"""
_LOG = logging.getLogger("spark_kafka_sink")
_CLOCK: Final = SystemClock()
NOT_VISIBLE = (
    "none of its transactions was committed, so read_committed readers see no rows of the finished "
    "tasks"
)
_VISIBLE = "read_committed readers see the rows of the batch once, although Spark reports a failure"
_PARTIAL = "the batch was decided, but only part of its transactions could be committed"
_UNKNOWN = "it is unknown whether the batch was decided, and which of its rows are visible"
_MAX_LISTED = 10
"""Maximum number of transactional ids in a message."""
_WITHOUT_BATCH_ID = (
    "exactly once without batchId: all rows or none are written, but a run of this job after a "
    "successful run writes them again. Set batchId to write them once."
)


def plan_write(config: SinkConfig, roles: ColumnRoles, origin: WriteOrigin) -> WriteJob:
    """Plan a batch write, after finishing any decision of the batch's earlier runs.

    Raises:
        ConfigError: an option is only for streams.
        KafkaProdError: the decision log cannot be read, or a decision cannot be finished.
    """
    options = config.exactly_once
    if options.reset_transactional_state or options.reset_batch is not None:
        raise errors.ConfigError(
            "option resetTransactionalState is for streams",
            hint="A written batch keeps its batchId: use another batchId.",
        )
    prefix, batch_id = options.transactional_id_prefix, options.batch_id
    target = WriteTarget(topic=config.topic, name=options.write_name)
    scope = Scope.run(prefix) if batch_id is None else Scope.batch(prefix, batch_id, target)
    plan = _plan(config, scope)
    task = TransactionalTaskWriter(config, roles, plan, origin)
    if not task.must_write:
        # Planning cannot determine whether foreachBatch of the same query repeats its own batch.
        _LOG.warning(
            "batchId %s was already written %s under transactionalIdPrefix %s: this write adds "
            "nothing, and fails if another query wrote the batch. If these are different rows, use "
            "another batchId, or with a new checkpoint another transactionalIdPrefix",
            batch_id,
            target,
            prefix,
        )
    if (
        batch_id is None
        and config.summary is not Summary.OFF
        and not internals.only_errors_are_logged()
    ):
        log_success(_WITHOUT_BATCH_ID, watched=internals.is_watched())
    completion = ExactlyOnceCompletion(
        config, origin, scope, PlanningData(nonce=plan.nonce, shared=plan.shared)
    )
    return WriteJob(task, completion)


def plan_micro_batch(
    config: SinkConfig, roles: ColumnRoles, origin: WriteOrigin
) -> TransactionalTaskWriter:
    """Return the writer for a micro-batch's tasks. Unfinished earlier decisions are finished first.

    If the query's last planning was neither committed nor aborted, its transactions are aborted.

    Raises:
        KafkaProdError: the decision log cannot be read, or a decision cannot be finished.
    """
    scope = stream_scope(config)
    plan = _plan(config, scope)
    # Only the checkpoint identifies the query: Spark never runs two queries with one checkpoint.
    last = origin.planning_file.read_unended() if origin.checkpoint else PlanningData()
    # With a new shared transaction, planning has already fenced the last one.
    if last.nonce is not None and (plan.shared is None or last.shared is None):
        ExactlyOnceCompletion(config, origin, scope).give_up(last)
    origin.planning_file.store(replace(origin.planned, nonce=plan.nonce, shared=plan.shared))
    return TransactionalTaskWriter(config, roles, plan, origin)


def stream_scope(config: SinkConfig) -> Scope:
    """Return the scope of a stream."""
    return Scope.stream(config.exactly_once.transactional_id_prefix)


def check_stream_options(config: SinkConfig, options: Mapping[str, str]) -> None:
    """Raise an error for options that do not apply to a stream or break exactly-once.

    Args:
        config: the sink's settings.
        options: all options of the writer, including Spark's own, by lower-case names.

    Raises:
        ConfigError: `batchId` is set, or asynchronous progress tracking is enabled.
    """
    if options.get(_ASYNC_PROGRESS.lower(), "false").strip().lower() == "true":
        raise errors.ConfigError(
            f"option {_ASYNC_PROGRESS} and deliveryGuarantee=exactly-once cannot be used together: "
            "Spark would plan written batches again with different rows",
            hint="Remove one of them.",
        )
    if config.exactly_once.batch_id is not None:
        raise errors.ConfigError(
            "option batchId is for batch writes: Spark numbers the batches of a stream itself",
            hint="Remove it; with foreachBatch, set it on the write in the function.",
        )


def _plan(config: SinkConfig, scope: Scope) -> ExactlyOncePlan:
    options = config.exactly_once
    located = replace(config, producer=with_shipped_files(config.producer))
    committer, timeout_ms = BatchCommitter(located, scope), transaction_timeout_ms(located)
    if options.atomic_batch:
        state, shared = committer.begin(timeout_ms)
    else:
        state, shared = committer.recover(), None
    is_written = scope.kind is ScopeKind.BATCH and not isinstance(state, Nothing)
    return ExactlyOncePlan(
        scope=scope,
        nonce=new_nonce(),
        state=state,
        is_followed=is_written and committer.is_followed(),
        timeout_ms=timeout_ms,
        shared=shared,
        reset=options.reset_transactional_state,
        reset_batch=options.reset_batch,
        two_phase=options.two_phase_commit,
    )


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

    def commit(self, messages: Sequence[object], batch_id: int | None = None) -> DeliveryReport:
        """Make the rows of all tasks visible, or the rows of none.

        Raises:
            KafkaProdError: the batch is not committed, or only partially; see the message.
        """
        with self.origin.error_file.storing_errors():
            return self._commit(messages, batch_id)

    def _commit(self, messages: Sequence[object], batch_id: int | None) -> DeliveryReport:
        publication = self.publication(batch_id)
        report = commit_messages.committed_report(messages, self.config.report_tasks)
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
        batch, written = self._batch(batch_id), commit_messages.written_topics(messages)
        outcome = self._committer().commit(batch, results, nonce, written)
        self.origin.planning_file.end(nonce)
        completed = self._with_outcome(report, outcome, outcome.status.value, results)
        return publication.succeed(completed)

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
            outcome = self._abort(tasks, planned, self._batch(batch_id), complete=complete)
        except Exception as problem:  # noqa: BLE001 - the batch's own error must be raised
            _LOG.warning("%s: %s", publication.name, errors.text_of(problem))
            text, remedy = self._describe_failure(problem, _ids(tasks, planned))
            publication.fail(replace(report, transaction_outcome=text), remedy)
            return
        left = self._describe_open(outcome.left_open, outcome.problem)
        text = f"{outcome.status.value}, but {left}" if left else outcome.status.value
        if not left:
            self.origin.planning_file.end(planned.nonce)
        report = self._with_outcome(report, outcome, text, [task.result for task in tasks])
        is_aborted = outcome.status is CommitStatus.ABORTED
        publication.fail(report, self._remedy(left) if is_aborted else _VISIBLE)

    def give_up(self, planned: PlanningData) -> None:
        """Abort the transactions of an earlier planning of the query, unless they are decided.

        Neither its commit() nor its abort() has completed: stop() may interrupt Spark before it
        calls abort(). As in abort(), the abort flag stops a commit() that is still running.
        """
        try:
            outcome = self._abort((), planned, self._scope.name, complete=False)
            left = self._describe_open(outcome.left_open, outcome.problem)
        except Exception as error:  # noqa: BLE001 - it must not fail the batch that is planned
            left = self._describe_open(_ids((), planned), errors.text_of(error))
        if left:
            _LOG.warning(
                "%s: an earlier micro-batch was neither committed nor aborted; %s. They end when "
                "the query's next micro-batch is committed%s",
                self._scope,
                left,
                self._or_timeout,
            )

    def _batch(self, batch_id: int | None) -> str:
        """Return the batch number of a stream, otherwise the name of the scope."""
        return self._scope.name if batch_id is None else str(batch_id)

    def _planning_data_of(self, tasks: Sequence[TransactionCommitMessage]) -> PlanningData:
        """Return the planning data from the tasks' results, otherwise from the planning file."""
        if self._planned is not None:
            return self._planned
        if tasks:
            return PlanningData(nonce=tasks[0].nonce, shared=tasks[0].result.shared)
        return self.origin.planning_file.read()

    def _describe_open(self, names: Sequence[str], problem: str) -> str:
        """Describe which transactions might be open, and until when; empty if none can be open."""
        if not names and not problem:
            return ""
        shown = ", ".join(names[:_MAX_LISTED])
        unlisted = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        until = " until it times out" if len(names) == 1 else " until they time out"
        which = (
            f"{plural(len(names), 'transaction')} may be open{until if self._or_timeout else ''}"
        )
        others = f"transactions of tasks that did not finish may be open: {problem}"
        which += f": {shown}{unlisted}"
        return "; ".join([*([which] if names else []), *([others] if problem else [])])

    def _describe_failure(self, error: Exception, names: Sequence[str]) -> tuple[str, str]:
        """Describe the outcome and the remedy if abort() itself fails with `error`."""
        if isinstance(error, errors.TornTransactionError):
            return _PARTIAL, f"{_PARTIAL}: {errors.text_of(error)}"
        left = self._describe_open(names, errors.text_of(error))
        return left, f"{_UNKNOWN}; {left}. {self._remedy_if_unknown()}"

    @property
    def _or_timeout(self) -> str:
        """Another end of open transactions; "" with two-phase commit, which has no timeout."""
        return "" if self.config.exactly_once.two_phase_commit else " or when they time out"

    def _remedy(self, left: str) -> str:
        """Describe the outcome of a failed batch, and the command that ends open transactions."""
        if not left:
            return NOT_VISIBLE
        return (
            f"{NOT_VISIBLE}; {left}. They end when the batch runs again{self._or_timeout}. If no "
            "query or job with the prefix is running, end them with "
            f"{self._command('abort --undecided')}"
        )

    def _remedy_if_unknown(self) -> str:
        before = " before the transactions time out" if self._or_timeout else ""
        return (
            f"Run the batch again{before}: it first commits what was decided. "
            f"{self._command('list')} shows whether they are decided, and "
            f"{self._command('commit')} commits those that are"
        )

    def _command(self, name: str) -> str:
        servers = ",".join(self.config.producer.bootstrap_servers)
        return (
            f"`kafkaprod transactions {name} --prefix {self._scope.prefix} "
            f"--bootstrap-servers {servers}`"
        )

    def _with_outcome(
        self,
        report: DeliveryReport,
        outcome: CommitOutcome,
        text: str,
        results: Sequence[TaskResult],
    ) -> DeliveryReport:
        """Return the report with the outcome, and with the transactions to which it applies.

        If another run has written the batch, the tasks count as having skipped it.
        """
        if outcome.superseded:
            report = _without_counters(report)
        theirs = outcome.status in (CommitStatus.COMMITTED, CommitStatus.ABORTED)
        transactions = transactions_of(results, self.config.report_tasks) if theirs else ()
        return replace(report, transaction_outcome=text, transactions=transactions)

    def _abort(
        self,
        tasks: Sequence[TransactionCommitMessage],
        planned: PlanningData,
        batch: str,
        *,
        complete: bool,
    ) -> CommitOutcome:
        results, committer = [task.result for task in tasks], self._committer()
        nonce = planned.nonce
        # the tasks of the shared transaction are fenced when it ends
        if planned.shared is not None:
            # Only the report needs the partitions; executors with a different version may omit
            # them.
            with suppress(Exception):
                results = results_of(tasks)
            return committer.abort_shared(
                batch, results, planned.shared, complete=complete, nonce=nonce
            )
        return committer.abort(batch, results, complete=complete, nonce=nonce)

    def _committer(self) -> BatchCommitter:
        located = replace(self.config, producer=with_shipped_files(self.config.producer))
        return BatchCommitter(located, self._scope)


def _without_counters(report: DeliveryReport) -> DeliveryReport:
    """Return a report without counters, for tasks whose rows are not visible."""
    kept = ("started_at", "startup_ms", "query_name", "query_id", "batch_id")
    return type(report)(**{name: getattr(report, name) for name in kept})


def _ids(tasks: Sequence[TransactionCommitMessage], planned: PlanningData) -> list[str]:
    """Return the transactional ids that are still known after abort() itself has failed."""
    if planned.shared is not None:
        return [planned.shared.transactional_id]
    written = (task.result.transaction for task in tasks)
    return [transaction.transactional_id for transaction in written if transaction is not None]
