"""TxnOffsetCommit 0-5: offsets that count once the transaction is committed (KIP-98).

Since version 3 the request may name a group member and its generation, which are checked then
(KIP-447). Up to version 4 the client sends AddOffsetsToTxn first; version 5 implies it (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.group_offsets import CommittedOffset
from spark_kafka_sink.broker.coordinator.transaction_metadata import ProducerIdAndEpoch
from spark_kafka_sink.broker.coordinator.transaction_verification import (
    TransactionSupportedOperation,
    Writer,
    verify,
)
from spark_kafka_sink.broker.coordinator.transactional_offsets import OFFSETS_PARTITION
from spark_kafka_sink.broker.handlers.membership import NO_GENERATION, check_coordinator, may_commit
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.message_builder import Values

ABORTABLE_VERSION = 4
ADDING_VERSION = 5
MAX_METADATA = 4096
"""Kafka's offset.metadata.max.bytes; it counts characters."""


def handle(context: RequestContext) -> Answer:
    """Handle the TxnOffsetCommit API."""
    exists = {
        (item.name, p.partition_index)
        for item in context.request.topics
        if (topic := context.cluster.topics.named(item.name)) is not None
        for p in item.partitions
        if topic.partition(p.partition_index) is not None
    }
    error = _join_transaction(context) if exists else ErrorCode.none
    return {
        "topics": [
            {
                "name": item.name,
                "partitions": [
                    _commit(context, item.name, p, exists, error) for p in item.partitions
                ],
            }
            for item in context.request.topics
        ]
    }


def _producer(context: RequestContext) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(context.request.producer_id, context.request.producer_epoch)


def _join_transaction(context: RequestContext) -> ErrorCode:
    """Add the offsets partition to the transaction; the error for all offsets if that fails."""
    offsets = context.cluster.transactional_offsets
    producer = _producer(context)
    error = check_coordinator(context)
    if not error and not offsets.is_ongoing(producer):
        writer = Writer(
            transactional_id=context.request.transactional_id,
            producer=producer,
            supported_operation=TransactionSupportedOperation.of(
                context.version, generic_errors=ABORTABLE_VERSION, adding=ADDING_VERSION
            ),
        )
        error = verify(context.cluster.transaction_coordinator, writer, OFFSETS_PARTITION)
    generation = context.get("generation_id", NO_GENERATION)
    error = (
        error
        or may_commit(context, generation, in_transaction=True)
        or offsets.check_epoch(producer)
    )
    if not error:
        offsets.begin(producer)
    return error


def _commit(
    context: RequestContext, name: str, asked: Any, exists: set[tuple[str, int]], error: ErrorCode
) -> Values:
    topic_partition = (name, asked.partition_index)
    if topic_partition not in exists:
        error = ErrorCode.unknown_topic_or_partition
    elif not error and len(asked.committed_metadata or "") > MAX_METADATA:
        error = ErrorCode.offset_metadata_too_large
    if not error:
        offset = CommittedOffset(
            offset=asked.committed_offset,
            leader_epoch=getattr(asked, "committed_leader_epoch", -1),
            metadata=asked.committed_metadata,
        )
        context.cluster.group_coordinator.get_or_create(context.request.group_id)
        context.cluster.transactional_offsets.add(
            _producer(context), context.request.group_id, topic_partition, offset
        )
    return {"partition_index": asked.partition_index, "error_code": error}


HANDLER = Handler(api=ApiKey.TXN_OFFSET_COMMIT, versions=VersionRange(0, 5), handle=handle)
