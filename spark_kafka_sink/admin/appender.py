"""Append records to one partition in a transaction.

Either all records become visible or none. The producer id and epoch are those that
`TransactionAdmin.init_producer_id` has returned. Source: ``TransactionManager``; KIP-98, KIP-360,
KIP-890, KAFKA-17754.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from spark_kafka_sink.admin.api_driver import ApiDriver, V
from spark_kafka_sink.admin.blocking_client import denied, on_topic
from spark_kafka_sink.admin.handlers.log import AddPartitionsHandler, ProduceHandler
from spark_kafka_sink.admin.handlers.transactions import EndTxnHandler
from spark_kafka_sink.admin.lookups import CoordinatorLookup, LeaderLookup
from spark_kafka_sink.client.cluster import TopicPartition
from spark_kafka_sink.common.errors import (
    BrokerUnavailableError,
    FencedError,
    KafkaProdError,
    RecordTooLargeError,
    TransactionError,
    UnknownTopicError,
)
from spark_kafka_sink.protocol.error_codes import FENCED, RECORDS_TOO_LARGE, ErrorCode, error_name
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.encoder import encode_records, slice_records
from spark_kafka_sink.records.record_batch import TRANSACTIONAL, BatchHeader, next_sequence
from spark_kafka_sink.security.acl import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.admin.api_driver import KeyResult
    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
    from spark_kafka_sink.protocol.transactions import OpenTransaction

    KeyValue = tuple[bytes, bytes | None]
    """A key, and its value; None is a tombstone."""

BATCH_BYTES: Final = 512 * 1024
"""Maximum bytes of keys and values per batch, except for a larger single record.

Half of the default of max.message.bytes.
"""
_TIMEOUT_MS: Final = 60_000
_ABORT_SECONDS: Final = 5.0
_PATIENCE: Final = 30.0
"""How long to retry UNKNOWN_TOPIC_OR_PARTITION, in seconds: new topics take time to propagate."""
_FENCED = FENCED | {ErrorCode.invalid_producer_id_mapping, ErrorCode.invalid_txn_state}
"""The producer was fenced, or its transaction was aborted by the next InitProducerId or after
transaction.timeout.ms."""


class UnclearFenceError(FencedError):
    """The producer was fenced, and its records may have been committed before."""


class TransactionalAppender:
    """Appends records for producers that `TransactionAdmin.init_producer_id` has returned.

    Args:
        client: sends the requests; the caller closes it.
        admin: uses the same client.
        timeout_ms: transaction.timeout.ms of the producers.
    """

    def __init__(
        self, client: BlockingClient, admin: TransactionAdmin, timeout_ms: int = _TIMEOUT_MS
    ) -> None:
        self._client = client
        self._admin = admin
        self._timeout_ms = timeout_ms
        self._sequences: dict[tuple[int, int, TopicPartition], int] = {}
        """Next sequence number by producer id, epoch and partition: V1 does not bump the epoch."""

    def append(
        self,
        owner: OpenTransaction,
        topic: str,
        records: Sequence[KeyValue],
        deadline: float | None,
        partition: int = 0,
        before_commit: Callable[[], None] | None = None,
    ) -> OpenTransaction:
        """Append all records in one transaction, or none.

        After this returns, the commit is decided, but the marker may be written a moment later;
        until then, `LogReader` returns the records as pending. After a later InitProducerId of the
        same transactional id has returned, the marker has been written.

        Args:
            owner: the producer, without an open transaction.
            topic: an existing topic.
            records: at least one record.
            deadline: when to give up, in seconds of the client's clock; None for no deadline.
            partition: the partition's number.
            before_commit: called after all records are written and before the commit; if it raises
                a KafkaProdError, the transaction is aborted and nothing is appended.

        Returns:
            The producer for the owner's next transaction.

        Raises:
            FencedError: the producer was fenced, or the transaction was aborted. Nothing is or will
                be appended, unless it is an UnclearFenceError.
            RecordTooLargeError: a record exceeds the topic's limit.
            AuthorizationError: an ACL is missing, which the error names.
            TransactionError: a broker rejects a request for another reason; nothing is appended.
            BrokerUnavailableError: the deadline has passed. Either all records or none are
                appended; the next InitProducerId decides it.
        """
        if not records:
            raise ValueError("an empty transaction can't be committed")
        key = TopicPartition(topic, partition)
        try:
            if owner.version.needs_add_partitions:
                self._add_partition(owner, key, deadline)
            for batch in _in_batches(records):
                self._produce(owner, key, batch, deadline)
            if before_commit is not None:
                before_commit()
        except (FencedError, BrokerUnavailableError):
            raise
        except KafkaProdError:
            self._abort(owner, deadline)
            raise
        return self._commit(owner, deadline)

    def _add_partition(
        self, owner: OpenTransaction, key: TopicPartition, deadline: float | None
    ) -> None:
        client, name = self._client, owner.transactional_id
        driver = ApiDriver(
            client, AddPartitionsHandler(owner, key), CoordinatorLookup(client), (name,)
        )
        if not driver.run(deadline):
            raise client.unavailable(f"AddPartitionsToTxn of {name}", driver.latest_code)
        if driver.results[name].code:
            raise self._refusal("AddPartitionsToTxn", owner, key, driver.results[name])

    def _produce(
        self,
        owner: OpenTransaction,
        key: TopicPartition,
        records: Sequence[KeyValue],
        deadline: float | None,
    ) -> None:
        client = self._client
        place = (owner.producer_id, owner.epoch, key)
        sequence = self._sequences.get(place, 0)
        batch = _batch(owner, sequence, records, client.wall_ms())
        lookup = LeaderLookup(client, _PATIENCE)
        driver = ApiDriver(client, ProduceHandler(client, owner, batch), lookup, (key,))
        if not driver.run(deadline):
            raise client.unavailable(f"Produce to {key.topic}-{key.partition}", driver.latest_code)
        result = driver.results[key]
        if result.code not in {ErrorCode.none, ErrorCode.duplicate_sequence_number}:
            raise self._refusal("Produce", owner, key, result)
        self._sequences[place] = next_sequence(sequence, len(records))

    def _commit(self, owner: OpenTransaction, deadline: float | None) -> OpenTransaction:
        client, name = self._client, owner.transactional_id
        handler = EndTxnHandler([owner], commit=True)
        driver = ApiDriver(client, handler, CoordinatorLookup(client), (name,))
        if not driver.run(deadline):
            raise client.unavailable(f"committing {name}, which may be done,", driver.latest_code)
        try:
            return self._following(owner, driver.results[name], handler, deadline)
        except FencedError as error:
            if not handler.may_have_ended:
                raise
            raise UnclearFenceError(error.message, error=error.error) from error

    def _following(
        self,
        owner: OpenTransaction,
        result: KeyResult[OpenTransaction],
        handler: EndTxnHandler,
        deadline: float | None,
    ) -> OpenTransaction:
        """Return the producer for the owner's next transaction."""
        name = owner.transactional_id
        if result.value is None:
            raise self._refusal("EndTxn", owner, None, result)
        if result.value.epoch == owner.epoch and handler.has_lost_answers:
            # A lost EndTxn may still arrive, and would end the next transaction: bump the epoch.
            return self._admin.init_producer_id(name, self._timeout_ms, deadline, owner)
        return result.value

    def _abort(self, owner: OpenTransaction, deadline: float | None) -> None:
        """Try to abort the transaction; if that fails, the next InitProducerId aborts it."""
        soon = self._client.deadline(_ABORT_SECONDS)
        until = soon if deadline is None else min(soon, deadline)
        with suppress(KafkaProdError):  # The original error is raised.
            self._admin.end([owner], commit=False, deadline=until)

    def _refusal(
        self,
        what: str,
        owner: OpenTransaction,
        key: TopicPartition | None,
        result: KeyResult[V],
    ) -> KafkaProdError:
        """Return the error for a final error code."""
        code, name = result.code, owner.transactional_id
        if code in _FENCED:
            return FencedError(
                f"{what} of {name}: another producer has taken over this id, or its transaction "
                "was aborted",
                error=error_name(code),
            )
        if key is None:
            return self._admin.refusal(what, name, code)
        topic, partition = key
        if code == ErrorCode.topic_authorization_failed:
            return denied(self._client, what, code, on_topic(Operation.WRITE, topic))
        if code == ErrorCode.unknown_topic_or_partition:
            return UnknownTopicError(
                "the topic does not exist", topic=topic, error=error_name(code)
            )
        if code in RECORDS_TOO_LARGE:
            return RecordTooLargeError(
                "the topic takes no batch of this size",
                topic=topic,
                partition=partition,
                error=error_name(code),
                hint="raise its max.message.bytes",
            )
        if code == ErrorCode.transactional_id_authorization_failed:
            return self._admin.refusal(what, name, code)
        said = f": {result.message}" if result.message else ""
        return TransactionError(
            f"{what} of {name} was refused{said}",
            topic=topic,
            partition=partition,
            broker=None if result.node is None else str(result.node),
            error=error_name(code),
        )


def _in_batches(records: Sequence[KeyValue]) -> Iterator[Sequence[KeyValue]]:
    """Yield the records in order, in batches of at most `BATCH_BYTES` or of one record."""
    start = size = 0
    for end, (key, value) in enumerate(records):
        added = len(key) + len(value or b"")
        if end > start and size + added > BATCH_BYTES:
            yield records[start:end]
            start, size = end, 0
        size += added
    yield records[start:]


def _batch(
    owner: OpenTransaction, sequence: int, records: Sequence[KeyValue], now_ms: int
) -> list[Buffer]:
    """Return a record batch as header and records."""
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
