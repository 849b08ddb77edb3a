"""WriteTxnMarkers 1-2: the end of a transaction, written into partitions that the node leads.

Coordinators here write without it; it serves `kafka-transactions abort`, which ends transactions
that nobody coordinates any more (KIP-664). Since version 2 a marker says whether it is one of
transactions V2, whose epoch has to be newer than that of the records (KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.partition.control_batch import EndTransactionMarker
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.protocol.message_builder import Values

BUMPING = 2


def handle(context: RequestContext) -> Answer:
    """See the module."""
    return {"markers": [_marker(context, item) for item in context.request.markers]}


def _marker(context: RequestContext, item: Any) -> Values:
    marker = EndTransactionMarker(
        producer_id=item.producer_id,
        epoch=item.producer_epoch,
        commit=item.transaction_result,
        coordinator_epoch=item.coordinator_epoch,
    )
    bumps = getattr(item, "transaction_version", 0) >= BUMPING
    return {
        "producer_id": item.producer_id,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": index,
                        "error_code": _write(context, (topic.name, index), marker, bumps=bumps),
                    }
                    for index in topic.partition_indexes
                ],
            }
            for topic in item.topics
        ],
    }


def _write(
    context: RequestContext,
    topic_partition: tuple[str, int],
    marker: EndTransactionMarker,
    *,
    bumps: bool,
) -> ErrorCode:
    topic = context.cluster.topics.named(topic_partition[0])
    partition = topic.partition(topic_partition[1]) if topic else None
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    error = partition.leadership_error(context.node, -1) or _check_marker(
        partition, marker, bumps=bumps
    )
    if not error and not context.cluster.marker_writer.write(topic_partition, marker):
        return ErrorCode.kafka_storage_error
    return error


def _check_marker(partition: Partition, marker: EndTransactionMarker, *, bumps: bool) -> ErrorCode:
    entry = partition.producers.entries.get(marker.producer_id)
    if entry is None:
        return ErrorCode.none
    is_open = marker.producer_id in partition.transactions.ongoing
    if marker.epoch < entry.epoch or (bumps and is_open and marker.epoch == entry.epoch):
        return ErrorCode.invalid_producer_epoch
    fenced = marker.coordinator_epoch < entry.coordinator_epoch
    return ErrorCode.transaction_coordinator_fenced if fenced else ErrorCode.none


HANDLER = Handler(api=ApiKey.WRITE_TXN_MARKERS, versions=VersionRange(1, 2), handle=handle)
