"""Entry points of the driver: plan, commit and abort a batch."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
from spark_kafka_sink.exactly_once.shared_transaction import are_all_skipped, shared_of
from spark_kafka_sink.exactly_once.steps import shared_commit
from spark_kafka_sink.exactly_once.steps.abort import abort_batch, abort_undecided
from spark_kafka_sink.exactly_once.steps.commit import commit_batch
from spark_kafka_sink.exactly_once.steps.recovery import recover_runs, recover_scope
from spark_kafka_sink.exactly_once.steps.scope_client import connected_scope_client
from spark_kafka_sink.exactly_once.task_transaction import (
    TaskOutcome,
    TaskResult,
    TaskTransaction,
    rows_of,
    topics_of,
)
from spark_kafka_sink.exactly_once.transactional_id import Scope, ScopeKind, nonces_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_kafka_sink.common.recreated_topics import WrittenTopic
    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.exactly_once.commit_outcome import CommitResult
    from spark_kafka_sink.exactly_once.decision_record import ScopeState
    from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer


class BatchCommitter:
    """Recovers, commits and aborts the batches of one scope.

    It contains only settings, so any process may create one. Connections, and the part of the
    decision log that has already been read, are cached per process.

    Args:
        config: the sink's settings, with deliveryGuarantee=exactly-once.
        scope: the stream, the batch job, or the run.
    """

    def __init__(self, config: SinkConfig, scope: Scope) -> None:
        self._config = config
        self._scope = scope

    def recover(self) -> ScopeState:
        """Finish the decisions of earlier drivers during planning, without fencing those drivers.

        Returns:
            The state of the scope: nothing yet, or the latest batch, which is committed. The state
            contains no transactions, so it is small enough to be sent to every task; tasks pass it
            to `decision_rules.batch_verdict`.

        Raises:
            ConfigError: the brokers do not support transactions.
            TornTransactionError: rows of a decided batch are lost, and no reset is requested.
            TransactionError: the record in the decision log cannot be parsed.
            BrokerUnavailableError: max.block.ms has passed.
        """
        with self._planning_client() as scope_client:
            return recover_scope(scope_client, lambda _: self._resets_state, create=True)

    def has_later_batch(self) -> bool:
        """Return True if foreachBatch has written a later batch.

        See `DecisionRecords.has_later_batch`.

        Raises:
            TransactionError: a record in the decision log cannot be parsed.
            BrokerUnavailableError: max.block.ms has passed.
        """
        with connected_scope_client(self._config, self._scope) as scope_client:
            return scope_client.log.read().has_later_batch(self._scope)

    def begin(self, timeout_ms: int) -> tuple[ScopeState, TransactionalProducer | None]:
        """Do the same as `recover`, and begin the transaction that all tasks of the batch share.

        Earlier drivers and their tasks are fenced. The returned transaction is None if the batch is
        already written.

        Args:
            timeout_ms: transaction.timeout.ms of that transaction.

        Raises:
            ConfigError: the brokers are too old to describe producers.
            KafkaProdError: see `recover`.
        """
        with self._planning_client() as scope_client:
            return shared_commit.begin_shared(scope_client, timeout_ms, reset=self._resets_state)

    def commit(
        self,
        batch: str,
        results: Sequence[TaskResult],
        nonce: str | None = None,
        written: Sequence[WrittenTopic] = (),
    ) -> CommitResult:
        """Make the rows of all tasks visible, or detect that they are already visible.

        Args:
            batch: batch number of a stream; otherwise the name of the scope.
            results: the results of all tasks, whatever their outcomes.
            nonce: nonce created when the write was planned, if the caller knows it.
            written: the topics that the tasks have written to, with their ids.

        Raises:
            DeliveryError: a topic was deleted or recreated after a task had written to it.
            TornTransactionError: rows of a decided batch are lost.
            FencedError: a newer driver has taken over.
            TransactionError: the batch is rejected, or a transaction can no longer be committed.
            BrokerUnavailableError: max.block.ms has passed, and it is unknown whether the batch was
                decided; `abort` resolves that.
        """
        tasks = _transactions_of(results)
        shared = shared_of(results)
        write = self._batch_write(_query_of(results), batch, results, nonce)
        with connected_scope_client(self._config, self._scope) as scope_client:
            scope_client.check_not_recreated(written)
            if shared is None or are_all_skipped(results):
                return commit_batch(scope_client, write, tasks)
            return shared_commit.commit_shared(scope_client, write, shared, results)

    def abort(
        self, batch: str, results: Sequence[TaskResult], *, complete: bool, nonce: str | None = None
    ) -> CommitResult:
        """Abort the tasks' open transactions; if the batch was decided, finish it instead.

        Args:
            batch: see `commit`.
            results: results of the tasks that finished.
            complete: True if `results` includes all tasks, so commit() may have been called.
            nonce: nonce created when the write was planned, if the caller knows it.

        Raises:
            TornTransactionError: the batch was decided, and some of its rows are lost.
            FencedError: a newer driver has taken over.
        """
        transactions = _transactions_of(results)
        with connected_scope_client(self._config, self._scope) as scope_client:
            # commit() needs all results. If it was not called, fencing would only stop others.
            if not complete:
                return abort_undecided(scope_client, batch, transactions, _given_up_nonces(nonce))
            query_id = results[0].query_id if results else None
            return abort_batch(
                scope_client, self._batch_write(query_id, batch, results, nonce), transactions
            )

    def abort_shared(
        self,
        batch: str,
        results: Sequence[TaskResult],
        shared: TransactionalProducer,
        *,
        complete: bool,
        nonce: str | None = None,
    ) -> CommitResult:
        """Abort the shared transaction unless it was committed; see `abort` for the arguments."""
        write = None
        if results:
            write = self._batch_write(results[0].query_id, batch, results, nonce)
            write = replace(write, rows=write.rows if complete else None, topics=None)
        with connected_scope_client(self._config, self._scope) as scope_client:
            return shared_commit.abort_shared(scope_client, write, shared, batch, results)

    @contextmanager
    def _planning_client(self) -> Iterator[ScopeClient]:
        """Yield the scope's client, after the decisions of earlier runs are finished."""
        with connected_scope_client(self._config, self._scope) as scope_client:
            scope_client.check_apis()
            if self._scope.kind is ScopeKind.RUN:
                recover_runs(scope_client)
            yield scope_client

    def _batch_write(
        self, query_id: str | None, batch: str, results: Sequence[TaskResult], nonce: str | None
    ) -> BatchWrite:
        return BatchWrite(
            query_id=query_id,
            batch=batch,
            resets_state=self._resets_state,
            reset_batch=self._config.exactly_once.reset_batch,
            is_single_batch=self._scope.kind is not ScopeKind.STREAM,
            has_skipped=any(result.outcome is TaskOutcome.SKIPPED for result in results),
            nonces=nonces_of(_transactions_of(results)) | _given_up_nonces(nonce),
            run_id=_run_of(results),
            rows=rows_of(results),
            topics=topics_of(results),
        )

    @property
    def _resets_state(self) -> bool:
        return self._config.exactly_once.reset_transactional_state


def _transactions_of(results: Sequence[TaskResult]) -> tuple[TaskTransaction, ...]:
    return tuple(result.transaction for result in results if result.transaction is not None)


def _given_up_nonces(nonce: str | None) -> frozenset[str]:
    return frozenset(() if nonce is None else (nonce,))


def _run_of(results: Sequence[TaskResult]) -> str | None:
    """Return the run id that all tasks share, or None if their run ids differ."""
    runs = {result.run_id for result in results}
    return runs.pop() if len(runs) == 1 else None


def _query_of(results: Sequence[TaskResult]) -> str | None:
    """Return the query id that all tasks share; None in a batch job.

    Raises:
        TransactionError: the tasks have different query ids, or there are no tasks.
    """
    queries = {result.query_id for result in results}
    if len(queries) != 1:
        raise TransactionError(
            f"the tasks of one batch ran for {len(queries)} queries: the batch is not decided",
            hint="Run the batch again; install the same version of this package on all executors.",
        )
    return queries.pop()
