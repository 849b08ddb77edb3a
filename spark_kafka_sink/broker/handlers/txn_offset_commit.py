"""TxnOffsetCommit 0-5: offsets that count once the transaction is committed (KIP-98).

Since version 3 by a member of the current generation (KIP-447), or by nobody in particular. Up to
version 4 AddOffsetsToTxn comes first; version 5 does that itself (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.group_offsets import CommittedOffset
from spark_kafka_sink.broker.coordinator.transaction_metadata import ProducerIdAndEpoch
from spark_kafka_sink.broker.coordinator.transaction_verification import (
    TransactionSupport,
    Writer,
    verify,
)
from spark_kafka_sink.broker.coordinator.transactional_offsets import OFFSETS_PLACE
from spark_kafka_sink.broker.handlers.membership import NO_GENERATION, coordinated, may_commit
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.message_builder import Values

ABORTABLE_VERSION = 4
ADDING_VERSION = 5
MAX_METADATA = 4096
"""Kafka's offset.metadata.max.bytes; it counts characters."""


def handle(call: RequestContext) -> Answer:
    """See the module."""
    exists = {
        (item.name, p.partition_index)
        for item in call.request.topics
        if (topic := call.cluster.topics.named(item.name)) is not None
        for p in item.partitions
        if topic.partition(p.partition_index) is not None
    }
    error = _refusal(call) if exists else ErrorCode.none
    return {
        "topics": [
            {
                "name": item.name,
                "partitions": [_commit(call, item.name, p, exists, error) for p in item.partitions],
            }
            for item in call.request.topics
        ]
    }


def _claim(call: RequestContext) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(call.request.producer_id, call.request.producer_epoch)


def _refusal(call: RequestContext) -> ErrorCode:
    """What keeps all offsets from being committed."""
    offsets, claim = call.cluster.markers.offsets, _claim(call)
    error = coordinated(call)
    if not error and not offsets.is_ongoing(claim):
        support = (
            TransactionSupport.ABORTABLE
            if call.version >= ABORTABLE_VERSION
            else TransactionSupport.OLD
        )
        support = TransactionSupport.ADDS if call.version >= ADDING_VERSION else support
        writer = Writer(
            transactional_id=call.request.transactional_id, claim=claim, support=support
        )
        error = verify(call.cluster.transactions, writer, OFFSETS_PLACE)
    generation = call.get("generation_id", NO_GENERATION)
    error = error or may_commit(call, generation, in_transaction=True) or offsets.judge(claim)
    if not error:
        offsets.begin(claim)
    return error


def _commit(
    call: RequestContext, name: str, asked: Any, exists: set[tuple[str, int]], error: ErrorCode
) -> Values:
    place = (name, asked.partition_index)
    if place not in exists:
        error = ErrorCode.unknown_topic_or_partition
    elif not error and len(asked.committed_metadata or "") > MAX_METADATA:
        error = ErrorCode.offset_metadata_too_large
    if not error:
        offset = CommittedOffset(
            offset=asked.committed_offset,
            leader_epoch=getattr(asked, "committed_leader_epoch", -1),
            metadata=asked.committed_metadata,
        )
        call.cluster.groups.get(call.request.group_id)
        call.cluster.markers.offsets.add(_claim(call), call.request.group_id, place, offset)
    return {"partition_index": asked.partition_index, "error_code": error}


HANDLER = Handler(api=ApiKey.TXN_OFFSET_COMMIT, versions=VersionRange(0, 5), handle=handle)
