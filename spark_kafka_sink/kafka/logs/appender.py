"""Append records to one partition in a transaction.

Either all records become visible, or none of them. The producer id and epoch come from
`TransactionAdmin.init_producer_id`. Source: ``TransactionManager``; KIP-98, KIP-360, KIP-890,
KAFKA-17754.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.errors import FencedError, KafkaProdError
from spark_kafka_sink.kafka.admin.transaction_handlers import EndTxnHandler
from spark_kafka_sink.kafka.blocking.api_driver import KeyResult, V, request_one
from spark_kafka_sink.kafka.blocking.lookups import MAX_WAIT_S
from spark_kafka_sink.kafka.logs.append_handlers import (
    NEW_TOPIC_RETRY_S,
    AddPartitionsHandler,
    ProduceHandler,
)
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.acl import AclOperation
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_batch import TRANSACTIONAL, BatchHeader, next_sequence
from spark_kafka_sink.kafka.records.record_encoder import encode_records, slice_records
from spark_kafka_sink.kafka.security.acl_errors import denied_error, topic_acl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer

    KeyValue = tuple[bytes, bytes | None]
    """A key and its value, which is None for a tombstone."""

BATCH_BYTES = 512 * 1024
"""Maximum bytes of keys and values per batch. A larger record is sent in its own batch.

This is half of the default value of max.message.bytes.
"""
_TRANSACTION_TIMEOUT_MS = 60_000
_ABORT_TIMEOUT_S = 5.0
"""Seconds of trying to abort; afterwards, the next InitProducerId aborts the transaction."""
_FENCED = error_codes.FENCED | {ErrorCode.invalid_producer_id_mapping, ErrorCode.invalid_txn_state}
"""Codes that mean that the producer was fenced, or that its transaction was aborted by the next
InitProducerId or after transaction.timeout.ms.
"""


class UnclearFenceError(FencedError):
    """The producer was fenced, and its records might already be committed."""


@dataclass
class TransactionalAppender:
    """Appends records for producers that `TransactionAdmin.init_producer_id` has returned."""

    client: BlockingClient
    """Sends the requests; the caller closes it."""
    admin: TransactionAdmin
    """The transaction administration, on the same client."""
    timeout_ms: int = _TRANSACTION_TIMEOUT_MS
    """transaction.timeout.ms of the producers."""
    _sequences: dict[tuple[int, int, TopicPartition], int] = field(default_factory=dict, init=False)
    """Next sequence number by producer id, epoch and partition; needed because V1 does not bump the
    epoch.
    """

    def append(
        self,
        owner: TransactionalProducer,
        topic: str,
        records: Sequence[KeyValue],
        deadline: float | None,
        before_commit: Callable[[], None] | None = None,
    ) -> TransactionalProducer:
        """Append all records to partition 0 in one transaction, or none of them.

        When this method returns, the commit is decided, but the marker might not be written yet.
        Until the marker is written, `LogReader` returns the transaction as pending. After a later
        InitProducerId for the same transactional id, the marker has been written.

        Args:
            owner: the producer, without an open transaction.
            topic: the name of an existing topic.
            records: at least one record.
            deadline: time limit in seconds of the client's clock; None for no deadline.
            before_commit: called after all records are written and before the commit. If it raises
                a KafkaProdError, the transaction is aborted and no records are appended.

        Returns:
            The producer to use for the owner's next transaction.

        Raises:
            FencedError: the producer was fenced, or the transaction was aborted. No records are
                appended, except possibly in case of an UnclearFenceError.
            RecordTooLargeError: a record exceeds the topic's limit.
            AuthorizationError: an ACL is missing; the error contains it.
            TransactionError: a broker rejected a request for a different reason; no records are
                appended.
            BrokerUnavailableError: the deadline has passed, or a response was lost before Kafka
                2.5. Either all records or none are appended. The next InitProducerId decides the
                outcome.
        """
        if not records:
            raise ValueError("an empty transaction cannot be committed")
        topic_partition = TopicPartition(topic, 0)
        try:
            if owner.version.needs_add_partitions:
                self._add_partition(owner, topic_partition, deadline)
            for batch in _in_batches(records):
                self._produce(owner, topic_partition, batch, deadline)
            if before_commit is not None:
                before_commit()
        except (FencedError, errors.BrokerUnavailableError):
            raise
        except KafkaProdError:
            self._abort(owner, deadline)
            raise
        return self._commit(owner, deadline)

    def _add_partition(
        self, owner: TransactionalProducer, topic_partition: TopicPartition, deadline: float | None
    ) -> None:
        action, name = "AddPartitionsToTxn", owner.transactional_id
        handler = AddPartitionsHandler(owner, topic_partition)
        result = request_one(self.client, handler, name, deadline, f"{action} of {name}")
        if result.code:
            raise self._rejection_error(action, owner, topic_partition, result)

    def _produce(
        self,
        owner: TransactionalProducer,
        topic_partition: TopicPartition,
        records: Sequence[KeyValue],
        deadline: float | None,
    ) -> None:
        client = self.client
        producer_and_partition = (owner.producer_id, owner.epoch, topic_partition)
        sequence = self._sequences.get(producer_and_partition, 0)
        batch = _encode_batch(owner, sequence, records, client.clock.wall_ms())
        # An unknown topic to which this appender has already appended was deleted.
        is_new = all(topic_partition != other for _, _, other in self._sequences)
        retry_s = NEW_TOPIC_RETRY_S if is_new else MAX_WAIT_S
        handler = ProduceHandler(client, batch, owner, unknown_topic_retry_s=retry_s)
        action = f"Produce to {topic_partition.topic}-{topic_partition.partition}"
        result = request_one(client, handler, topic_partition, deadline, action)
        if result.code not in {ErrorCode.none, ErrorCode.duplicate_sequence_number}:
            raise self._rejection_error("Produce", owner, topic_partition, result)
        self._sequences[producer_and_partition] = next_sequence(sequence, len(records))

    def _commit(
        self, owner: TransactionalProducer, deadline: float | None
    ) -> TransactionalProducer:
        client, name = self.client, owner.transactional_id
        handler, action = EndTxnHandler([owner], commit=True), f"committing {name}"
        result = request_one(
            client, handler, name, deadline, f"{action} (which may have succeeded)"
        )
        try:
            return self._next_owner(owner, result, handler, deadline)
        except FencedError as error:
            if not handler.may_have_ended:
                raise
            raise UnclearFenceError(error.message, kafka_error=error.kafka_error) from error

    def _next_owner(
        self,
        owner: TransactionalProducer,
        result: KeyResult[TransactionalProducer],
        handler: EndTxnHandler,
        deadline: float | None,
    ) -> TransactionalProducer:
        """Return the producer to use for the owner's next transaction."""
        name = owner.transactional_id
        if result.value is None:
            raise self._rejection_error("EndTxn", owner, None, result)
        if result.value.epoch == owner.epoch and handler.has_lost_responses:
            # A lost EndTxn might still arrive and end the next transaction, so bump the epoch.
            try:
                return self.admin.init_producer_id(name, self.timeout_ms, deadline, owner)
            except errors.ProtocolError as error:  # Kafka before 2.5 does not support KIP-360.
                raise errors.BrokerUnavailableError(
                    f"committing {name} got no response, and {error.message}", hint=error.hint
                ) from error
        return result.value

    def _abort(self, owner: TransactionalProducer, deadline: float | None) -> None:
        """Try to abort the transaction. If this fails, the next InitProducerId aborts it."""
        soon = self.client.deadline(_ABORT_TIMEOUT_S)
        until = soon if deadline is None else min(soon, deadline)
        with suppress(KafkaProdError):  # The caller raises the original error.
            self.admin.end([owner], commit=False, deadline=until)

    def _rejection_error(
        self,
        action: str,
        owner: TransactionalProducer,
        topic_partition: TopicPartition | None,
        result: KeyResult[V],
    ) -> KafkaProdError:
        """Return the error for a final error code."""
        code, name = result.code, owner.transactional_id
        if code in _FENCED:
            return FencedError(
                f"{action} of {name}: a newer producer with this id has fenced this producer, or "
                "its transaction was aborted",
                kafka_error=error_name(code),
            )
        if topic_partition is None:
            return self.admin.rejection(action, name, code)
        topic, partition = topic_partition
        if code == ErrorCode.topic_authorization_failed:
            return denied_error(
                self.client.config, action, code, topic_acl(AclOperation.WRITE, topic)
            )
        if code == ErrorCode.unknown_topic_or_partition:
            return errors.UnknownTopicError(
                "the topic does not exist", topic=topic, kafka_error=error_name(code)
            )
        if code in error_codes.RECORDS_TOO_LARGE:
            return errors.RecordTooLargeError(
                "a record exceeds the topic's maximum batch size",
                topic=topic,
                partition=partition,
                kafka_error=error_name(code),
                hint="Raise its max.message.bytes.",
            )
        if code == ErrorCode.transactional_id_authorization_failed:
            return self.admin.rejection(action, name, code)
        reason = f": {result.message}" if result.message else ""
        return errors.TransactionError(
            f"{action} of {name} was rejected{reason}",
            topic=topic,
            partition=partition,
            broker=None if result.node is None else str(result.node),
            kafka_error=error_name(code),
        )


def _in_batches(records: Sequence[KeyValue]) -> Iterator[Sequence[KeyValue]]:
    """Yield the records in order, in batches that have at most `BATCH_BYTES` or a single record."""
    start = size = 0
    for end, (key, value) in enumerate(records):
        added = len(key) + len(value or b"")
        if end > start and size + added > BATCH_BYTES:
            yield records[start:end]
            start, size = end, 0
        size += added
    yield records[start:]


def _encode_batch(
    owner: TransactionalProducer, sequence: int, records: Sequence[KeyValue], now_ms: int
) -> list[Buffer]:
    """Return a record batch as two buffers: the header and the records."""
    keys, values = zip(*records, strict=True)
    columns = Columns(value=pa.array(values, pa.binary()), key=pa.array(keys, pa.binary()))
    count = len(records)
    encoded = encode_records(columns, np.arange(count, dtype=np.int32))
    data = slice_records(encoded, 0, count)
    header = BatchHeader(
        attributes=TRANSACTIONAL,
        last_offset_delta=count - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=owner.producer_id,
        producer_epoch=owner.epoch,
        base_sequence=sequence,
        record_count=count,
    )
    return [header.pack([data]), data]
