"""One transaction for all tasks of a batch (atomicBatch=true), and the claims of its tasks.

All tasks write with one producer id and epoch, and each task numbers its records from 0 in each
partition. If a leader receives a batch with a producer id, epoch and sequence numbers that it
already has, it treats the batch as a duplicate: it returns success and appends nothing. Therefore
each partition of a topic must be written by only one task, and its leader must have exactly as many
records of the producer as that task reports.

The first attempt of a task claims the task's part of the transaction, even if the task has no rows.
Once all tasks have reported, no other attempt of these tasks can start writing. Source: KIP-98,
KIP-664.

The transaction has the driver's own transactional id, so drivers with and without atomicBatch fence
each other. The record that marks the batch as done is written in the same transaction. The single
EndTxn is the decision, so no batch can be torn.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.text import listed, plural
from spark_kafka_sink.config.exactly_once import acl_prefix
from spark_kafka_sink.exactly_once import decision_record, decision_rules
from spark_kafka_sink.exactly_once.commit_outcome import CommitOutcome, CommitStatus
from spark_kafka_sink.exactly_once.scope_state import Decided, NoDecision
from spark_kafka_sink.exactly_once.steps.orphans import abort_orphans
from spark_kafka_sink.exactly_once.steps.recovery import recover_scope
from spark_kafka_sink.exactly_once.steps.rejections import rejection_error
from spark_kafka_sink.exactly_once.task_transaction import (
    PartitionRange,
    TaskOutcome,
    TaskResult,
    TaskTransaction,
)
from spark_kafka_sink.exactly_once.transactional_id import ScopeKind
from spark_kafka_sink.kafka.admin.blocking_client import borrowed_client
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.versions import UnsupportedApiError
from spark_kafka_sink.kafka.records.record_batch import NO_SEQUENCE, next_sequence
from spark_kafka_sink.producer.transactions.producer_transaction import (
    FIRST_EPOCH,
    second_attempt_error,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
    from spark_kafka_sink.kafka.admin.transaction_handlers import ActiveProducer
    from spark_kafka_sink.kafka.protocol.transactions import OpenTransaction

_MAX_LISTED: Final = 5
REPARTITION: Final = (
    "Assign each partition of the topics to one task: write "
    "spark_kafka_sink.repartition_by_kafka_partition(df, options), or use a single task"
)
_RETRY_HINT: Final = (
    "No row of the batch is visible, and the batch can run again. It may have taken longer than "
    "transaction.timeout.ms; otherwise check whether another application uses this "
    "transactionalIdPrefix."
)
_LOG = logging.getLogger(__name__)


def claim(config: ProducerConfig, claim_id: str, timeout_ms: int, prefix: str) -> None:
    """Claim a task's part of the transaction with the first InitProducerId for `claim_id`.

    Args:
        config: connection settings.
        claim_id: a `TaskTransactionalId.claim_id`.
        timeout_ms: transaction.timeout.ms; can be any value that the brokers allow.
        prefix: transactionalIdPrefix, for the ACL in error messages.

    Raises:
        DeliveryError: another attempt has already claimed the part; or this attempt has claimed it,
            but the response was lost.
        KafkaProdError: max.block.ms has passed, or a permission is missing.
    """
    with borrowed_client(config) as client:
        admin = TransactionAdmin(client, acl_prefix(prefix))
        deadline = client.deadline(config.max_block_ms / 1000)
        granted = admin.init_producer_id(claim_id, timeout_ms, deadline)
    if granted.epoch != FIRST_EPOCH:
        raise second_attempt_error(claim_id)


def shared_of(results: Iterable[TaskResult]) -> OpenTransaction | None:
    """Return the transaction that all tasks share, or None if each task has its own.

    Raises:
        TransactionError: tasks have different transactions, or only some tasks have a transaction.
    """
    shared = {result.shared for result in results}
    if len(shared) > 1:
        raise errors.TransactionError(
            f"the tasks of one batch were planned {len(shared)} times: the batch is not committed",
            hint=_RETRY_HINT,
        )
    return shared.pop() if shared else None


def written_ranges(results: Sequence[TaskResult]) -> dict[TopicPartition, PartitionRange]:
    """Return the records written to each partition; each partition must have only one task.

    Args:
        results: results of all tasks, in the order of their Spark partitions.

    Raises:
        TransactionError: two tasks have written to the same partition; the message contains both.
    """
    owners: dict[TopicPartition, tuple[int, PartitionRange]] = {}
    for task, result in enumerate(results):
        written = () if result.transaction is None else result.transaction.partitions
        for owner in written:
            topic_partition = TopicPartition(owner.topic, owner.partition)
            if topic_partition in owners:
                raise _two_owners(topic_partition, owners[topic_partition][0], task)
            owners[topic_partition] = (task, owner)
    return {topic_partition: owner for topic_partition, (_, owner) in owners.items()}


def check_producers(
    shared: OpenTransaction,
    owners: Mapping[TopicPartition, PartitionRange],
    producers: Mapping[TopicPartition, Sequence[ActiveProducer]],
) -> None:
    """Raise an error unless each leader has exactly the records that the task reports.

    Args:
        shared: the transaction.
        owners: records written to each partition.
        producers: active producers of each partition, as its leader returned them.

    Raises:
        TransactionError: a leader has different records; the message lists such partitions.
    """
    wrong = [
        problem
        for key, written in owners.items()
        if (problem := _problem(shared, written, producers.get(key, ()))) is not None
    ]
    if not wrong:
        return
    raise errors.TransactionError(
        f"records that tasks wrote are missing from {len(wrong)} of "
        f"{plural(len(owners), 'partition')}, so the batch is not committed: "
        f"{listed(wrong, _MAX_LISTED, '; ')}",
        hint=_RETRY_HINT,
    )


def are_all_skipped(results: Sequence[TaskResult]) -> bool:
    """Return True if all tasks skipped the batch as already written.

    Raises:
        TransactionError: only some tasks skipped it.
    """
    skipped = sum(result.outcome is TaskOutcome.SKIPPED for result in results)
    if 0 < skipped < len(results):
        raise errors.TransactionError(
            f"{skipped} of {len(results)} tasks skipped the batch as already written, but the "
            "others did not: the batch is not committed",
            hint=_RETRY_HINT,
        )
    return skipped > 0


def _problem(
    shared: OpenTransaction, written: PartitionRange, producers: Sequence[ActiveProducer]
) -> str | None:
    """Return how the leader's state differs from the records that the task wrote, or None."""
    name = f"{written.topic}-{written.partition}"
    producer = next(
        (active for active in producers if active.producer_id == shared.producer_id), None
    )
    if producer is None:
        return f"{name} contains none of {plural(written.records, 'record')}"
    if producer.epoch != shared.epoch:
        return f"{name} has epoch {producer.epoch} of the producer instead of {shared.epoch}"
    if producer.transaction_start is None:
        return f"{name} has no open transaction of the producer"
    last = next_sequence(0, written.records - 1) if written.records else NO_SEQUENCE
    if producer.last_sequence != last:
        return f"{name} has {producer.last_sequence:,} as its last sequence instead of {last:,}"
    # With transactions V1, an epoch can be reused after an abort, which discards all earlier
    # records.
    if written.first_offset != producer.transaction_start:
        return (
            f"{name} has a transaction that starts at offset {producer.transaction_start} "
            f"instead of {written.first_offset}"
        )
    return None


def _two_owners(
    topic_partition: TopicPartition, first: int, second: int
) -> errors.TransactionError:
    return errors.TransactionError(
        f"tasks {first} and {second} have both written to this partition, which atomicBatch=true "
        f"does not allow: the batch is not committed",
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        hint=REPARTITION,
    )


def begin_shared(
    scope_client: ScopeClient, timeout_ms: int, *, reset: bool
) -> tuple[decision_record.ScopeState, OpenTransaction | None]:
    """Fence earlier drivers and their tasks, then read the state of the scope.

    InitProducerId returns after the previous transaction has ended, so a later read of the log
    shows the final state of the previous batches.

    Args:
        scope_client: the operations of the scope.
        timeout_ms: transaction.timeout.ms of the batch's transaction.
        reset: continue after a torn batch.

    Returns:
        The state of the scope, and the producer id and epoch for all tasks; None if the batch of a
        batch job is already written.

    Raises:
        ConfigError: the brokers cannot describe producers, which the check of the transaction
            requires.
        TornTransactionError: rows of a batch that was decided without atomicBatch are lost.
    """
    state = recover_scope(scope_client, lambda _: reset, create=True)
    if scope_client.scope.kind is not ScopeKind.STREAM and not isinstance(state, NoDecision):
        return state, None
    _check_brokers(scope_client)
    shared = scope_client.begin(timeout_ms)
    return recover_scope(scope_client, lambda _: reset), shared


def commit_shared(
    scope_client: ScopeClient,
    write: decision_rules.BatchWrite,
    shared: OpenTransaction,
    results: Sequence[TaskResult],
) -> CommitOutcome:
    """Make the rows of all tasks visible with one EndTxn, or none of them.

    Args:
        scope_client: the operations of the scope.
        write: the batch and its query.
        shared: the transaction.
        results: results of all tasks, none of which has skipped the batch.

    Raises:
        FencedError: a newer driver has taken over.
        TransactionError: the batch is rejected, or the partitions do not contain what tasks report.
        BrokerUnavailableError: max.block.ms has passed; `abort_shared` determines what is visible.
    """
    try:
        return _commit(scope_client, write, shared, results)
    except errors.FencedError as error:
        return _fenced(scope_client, write, results, error)
    except errors.BrokerUnavailableError:
        raise
    except errors.KafkaProdError:
        _try_abort(scope_client, shared)
        raise


def abort_shared(
    scope_client: ScopeClient,
    write: decision_rules.BatchWrite | None,
    shared: OpenTransaction,
    batch: str,
    results: Sequence[TaskResult],
) -> CommitOutcome:
    """Abort the transaction, unless it was committed.

    The epoch is ended first. After that, an EndTxn that is still in flight has no effect, so the
    log shows the final state of the batch. A decision of another driver is committed.

    Args:
        scope_client: the operations of the scope.
        write: the batch and its query; None if no task has reported.
        shared: the transaction.
        batch: number or name of the batch.
        results: results of the tasks that finished.

    Raises:
        TornTransactionError: another driver has decided the batch, and some of its rows are lost.
    """
    scope_client.end_epoch(shared)
    state = recover_scope(
        scope_client,
        lambda decided: write is None or not decision_rules.is_same_batch(decided, write),
    )
    is_written = (
        write is not None
        and decision_rules.batch_verdict(state, write) is decision_rules.BatchVerdict.SKIP
    )
    return CommitOutcome(
        status=CommitStatus.ALREADY_WRITTEN if is_written else CommitStatus.ABORTED,
        batch=batch,
        aborted=0 if is_written else 1,
        superseded=is_written and _is_aborted(scope_client, results),
        timings=scope_client.timer.timings,
    )


def _check_brokers(scope_client: ScopeClient) -> None:
    try:
        scope_client.check_describes_producers()
    except UnsupportedApiError as error:
        raise errors.ConfigError(
            "option atomicBatch requires brokers that support DescribeProducers",
            broker=error.broker,
            kafka_error=error.kafka_error,
            hint="Use Kafka 2.8 or later, or remove the option.",
        ) from error


def _commit(
    scope_client: ScopeClient,
    write: decision_rules.BatchWrite,
    shared: OpenTransaction,
    results: Sequence[TaskResult],
) -> CommitOutcome:
    owners = written_ranges(results)
    if not owners and scope_client.scope.kind is ScopeKind.RUN:
        _try_abort(scope_client, shared)  # The brokers might have rejected all rows.
        return CommitOutcome(status=CommitStatus.EMPTY, batch=write.batch)
    record = scope_client.log.read_after_fence()
    state = decision_record.state_of(record)
    if isinstance(state, Decided):
        # A driver without atomicBatch has decided the batch since planning.
        state = recover_scope(
            scope_client, lambda decided: decision_rules.replaces_query(decided, write)
        )
    no_tasks: tuple[TaskTransaction, ...] = ()  # the record lists no transactions
    step = decision_rules.next_commit_step(state, write, no_tasks)
    if isinstance(step, decision_rules.RejectBatch):
        raise rejection_error(step.rejection, scope_client.scope, state, write)
    if isinstance(step, decision_rules.AlreadyDone):
        _try_abort(scope_client, shared)
        outcome = _outcome(scope_client, write, CommitStatus.ALREADY_WRITTEN, state)
        return replace(outcome, superseded=bool(owners))
    assert isinstance(step, decision_rules.Decide)

    def check() -> None:
        check_producers(shared, owners, scope_client.producers(owners))

    if owners:
        check()
    # With transactions V1, an epoch can be reused after an abort. If the transaction was aborted in
    # between, the record is in a new transaction, which could be committed without the rows.
    second_check = check if owners and not shared.version.bumps_epoch else None
    done = decision_record.DecisionRecord(
        state=step.decided.to_done(),
        at_ms=scope_client.timer.wall_ms(),
        transactions=1 if owners else 0,
        records=sum(owner.records for owner in owners.values()),
    )
    scope_client.log.append(shared, done, "commit", before_commit=second_check)
    outcome = _outcome(
        scope_client, write, CommitStatus.COMMITTED if owners else CommitStatus.EMPTY, done.state
    )
    return replace(outcome, transactions=done.transactions, records=done.records)


def _fenced(
    scope_client: ScopeClient,
    write: decision_rules.BatchWrite,
    results: Sequence[TaskResult],
    error: errors.FencedError,
) -> CommitOutcome:
    """Handle a transaction ended by another client, or by our EndTxn whose response was lost."""
    state = recover_scope(
        scope_client, lambda decided: not decision_rules.is_same_batch(decided, write)
    )
    if decision_rules.batch_verdict(state, write) is decision_rules.BatchVerdict.SKIP:
        outcome = _outcome(scope_client, write, CommitStatus.ALREADY_WRITTEN, state)
        return replace(outcome, superseded=_is_aborted(scope_client, results))
    raise errors.TransactionError(
        f"the transaction of batch {write.batch} of {scope_client.scope} ended before it could be "
        "committed, and none of its rows are visible: transaction.timeout.ms has passed, or a "
        "newer driver has taken over",
        kafka_error=error.kafka_error,
        hint="Restart the query or the job. Only one run of a query may use its "
        "transactionalIdPrefix at a time; if tasks take longer than transaction.timeout.ms, raise "
        "that option and the brokers' transaction.max.timeout.ms, or write smaller batches.",
    ) from error


def _is_aborted(scope_client: ScopeClient, results: Iterable[TaskResult]) -> bool:
    """Return True if the tasks' records are followed by an abort marker."""
    tasks = [result.transaction for result in results if result.transaction is not None]
    deadline = scope_client.timer.deadline_in(scope_client.timer.max_block_s)
    fates = scope_client.fate_reader(deadline)
    return bool(tasks) and fates.fate_of(tasks[0]) is decision_record.Fate.LOST


def _try_abort(scope_client: ScopeClient, shared: OpenTransaction) -> None:
    """Try to abort; if this fails, the transaction is never committed."""
    try:
        scope_client.end_epoch(shared)
    except errors.KafkaProdError as error:
        _LOG.warning(
            "transaction %s could not be aborted and may block readers: %s",
            shared.transactional_id,
            error,
        )


def _outcome(
    scope_client: ScopeClient,
    write: decision_rules.BatchWrite,
    status: CommitStatus,
    state: decision_record.ScopeState,
) -> CommitOutcome:
    aborted = abort_orphans(scope_client, state)
    return CommitOutcome(
        status=status,
        batch=write.batch,
        aborted=len(aborted.ended),
        timings=scope_client.timer.timings,
    )
