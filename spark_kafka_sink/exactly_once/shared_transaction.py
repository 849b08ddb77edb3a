"""The transaction that all tasks of a batch share (atomicBatch=true): its claims and checks.

All tasks write with one producer id and epoch, and each task numbers its records from 0 in each
partition. If a leader receives a batch with a producer id, epoch and sequence numbers that it
already has, it treats the batch as a duplicate: it returns success and appends nothing. Therefore
each partition of a topic must be written by only one task, and its leader must have exactly as many
records of the producer as that task reports.

The first attempt of a task claims the task's part of the transaction, even if the task has no rows.
Once all tasks have reported, no other attempt of these tasks can start writing. Source: KIP-98,
KIP-664.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.text import listed, plural
from spark_kafka_sink.config.exactly_once import acl_prefix
from spark_kafka_sink.exactly_once.task_transaction import PartitionRange, TaskOutcome, TaskResult
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.record_batch import NO_SEQUENCE, next_sequence
from spark_kafka_sink.producer.transactions.transaction_errors import second_attempt_error
from spark_kafka_sink.producer.transactions.transaction_settings import FIRST_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.kafka.admin.transaction_description import ActiveProducer
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer

_MAX_LISTED = 5
_REPARTITION = (
    "Assign each partition of the topics to one task: write "
    "spark_kafka_sink.repartition_by_kafka_partition(df, options), or use a single task."
)
_RETRY_HINT = (
    "No row of the batch is visible, and the batch can run again. It may have taken longer than "
    "transaction.timeout.ms; otherwise check whether another application uses this "
    "transactionalIdPrefix."
)


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


def shared_of(results: Iterable[TaskResult]) -> TransactionalProducer | None:
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
    shared: TransactionalProducer,
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
        if (problem := _state_problem(shared, written, producers.get(key, ()))) is not None
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


def _state_problem(
    shared: TransactionalProducer, written: PartitionRange, producers: Sequence[ActiveProducer]
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
        hint=_REPARTITION,
    )
