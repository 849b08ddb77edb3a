"""AddPartitionsToTxn 0-5: partitions become part of a transaction before they are written to.

Versions up to 3 are the clients', for one transaction. Since version 4 there may be many, and
`verify_only` asks whether the partitions are part of it already (KIP-890). If one partition does
not exist none is added: OPERATION_NOT_ATTEMPTED for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.transaction_metadata import ProducerIdAndEpoch
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.handlers.request_lookups import check_transaction_coordinator
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.protocol.message_builder import Values

FENCED_VERSION = 2
"""Since then clients know PRODUCER_FENCED."""
BATCHED_VERSION = 4


def handle(context: RequestContext) -> Answer:
    """Handle the AddPartitionsToTxn API."""
    request = context.request
    if context.version >= BATCHED_VERSION:
        results = [_transaction(context, item) for item in request.transactions]
        return {"results_by_transaction": results}
    transactional_id = request.v3_and_below_transactional_id
    producer = ProducerIdAndEpoch(
        request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
    )
    topic_partitions = _topic_partitions(request.v3_and_below_topics)

    def add() -> dict[TopicPartition, ErrorCode]:
        error = context.cluster.transaction_coordinator.add(
            transactional_id, producer, topic_partitions
        )
        if error is ErrorCode.producer_fenced and context.version < FENCED_VERSION:
            error = ErrorCode.invalid_producer_epoch
        return dict.fromkeys(topic_partitions, error)

    errors = _unservable(context, transactional_id, topic_partitions) or add()
    return {"results_by_topic_v3_and_below": _results(request.v3_and_below_topics, errors)}


def _transaction(context: RequestContext, item: Any) -> Values:
    producer = ProducerIdAndEpoch(item.producer_id, item.producer_epoch)
    topic_partitions = _topic_partitions(item.topics)
    errors = _unservable(context, item.transactional_id, topic_partitions)
    if not errors and item.verify_only:
        verify = context.cluster.transaction_coordinator.verify
        errors = {
            topic_partition: verify(item.transactional_id, producer, topic_partition)
            for topic_partition in topic_partitions
        }
    elif not errors:
        error = context.cluster.transaction_coordinator.add(
            item.transactional_id, producer, topic_partitions
        )
        errors = dict.fromkeys(topic_partitions, error)
    return {
        "transactional_id": item.transactional_id,
        "topic_results": _results(item.topics, errors),
    }


def _topic_partitions(topics: Any) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _unservable(
    context: RequestContext, transactional_id: str, topic_partitions: list[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Errors that keep all from being added; empty if there are none."""
    found = {name: context.cluster.topics.named(name) for name, _ in topic_partitions}
    missing = {
        (name, index)
        for name, index in topic_partitions
        if (topic := found[name]) is None or topic.partition(index) is None
    }
    if missing:
        return {
            topic_partition: ErrorCode.unknown_topic_or_partition
            if topic_partition in missing
            else ErrorCode.operation_not_attempted
            for topic_partition in topic_partitions
        }
    error = check_transaction_coordinator(context, transactional_id)
    return dict.fromkeys(topic_partitions, error) if error else {}


def _results(topics: Any, errors: dict[TopicPartition, ErrorCode]) -> list[Values]:
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": errors[topic.name, index]}
                for index in topic.partitions
            ],
        }
        for topic in topics
    ]


HANDLER = Handler(api=ApiKey.ADD_PARTITIONS_TO_TXN, versions=VersionRange(0, 5), handle=handle)
