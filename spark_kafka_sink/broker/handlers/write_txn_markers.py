"""WriteTxnMarkers 1-2: writes transaction markers into partitions that the node leads.

The embedded coordinator writes markers directly. This API serves `kafka-transactions abort`, which
ends hanging transactions (KIP-664). Since version 2 a marker carries the transaction version: with
transactions V2 its epoch must be newer than that of the records (KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange
from spark_kafka_sink.records.control_batch import EndTransactionMarker

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.protocol.message_builder import Values

TRANSACTIONS_V2 = 2


def handle(context: RequestContext) -> Answer:
    """Handle the WriteTxnMarkers API."""
    return {"markers": [_write_marker(context, item) for item in context.request.markers]}


def _write_marker(context: RequestContext, item: Any) -> Values:
    marker = EndTransactionMarker(
        producer_id=item.producer_id,
        epoch=item.producer_epoch,
        commit=item.transaction_result,
        coordinator_epoch=item.coordinator_epoch,
    )
    is_v2 = getattr(item, "transaction_version", 0) >= TRANSACTIONS_V2
    return {
        "producer_id": item.producer_id,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": index,
                        "error_code": _write_to_partition(
                            context, (topic.name, index), marker, is_v2=is_v2
                        ),
                    }
                    for index in topic.partition_indexes
                ],
            }
            for topic in item.topics
        ],
    }


def _write_to_partition(
    context: RequestContext,
    topic_partition: TopicPartition,
    marker: EndTransactionMarker,
    *,
    is_v2: bool,
) -> ErrorCode:
    topic_name, index = topic_partition
    topic = context.cluster.topics.named(topic_name)
    partition = topic.partition(index) if topic else None
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    error = partition.leadership_error(context.node, -1) or _check_marker(
        partition, marker, is_v2=is_v2
    )
    if not error and not context.cluster.marker_writer.write(topic_partition, marker):
        return ErrorCode.kafka_storage_error
    return error


def _check_marker(partition: Partition, marker: EndTransactionMarker, *, is_v2: bool) -> ErrorCode:
    entry = partition.producers.entries.get(marker.producer_id)
    if entry is None:
        return ErrorCode.none
    is_open = marker.producer_id in partition.transactions.ongoing
    if marker.epoch < entry.epoch or (is_v2 and is_open and marker.epoch == entry.epoch):
        return ErrorCode.invalid_producer_epoch
    fenced = marker.coordinator_epoch < entry.coordinator_epoch
    return ErrorCode.transaction_coordinator_fenced if fenced else ErrorCode.none


HANDLER = Handler(api=ApiKey.WRITE_TXN_MARKERS, versions=VersionRange(1, 2), handle=handle)
