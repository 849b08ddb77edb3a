"""InitProducerId, the transaction APIs of producers, and WriteTxnMarkers.

InitProducerId 0-5: without a transactional id, a new producer id at epoch 0 (KIP-98). With one, its
producer id at the next epoch, which fences older producers. A transaction that they left open is
aborted first, and CONCURRENT_TRANSACTIONS makes the client retry. Since version 3 a producer may
send its current id and epoch (KIP-360), and is refused if a newer one exists; without a
transactional id they are ignored.

AddPartitionsToTxn 0-5: add partitions to a transaction before they are written to. Clients use
versions up to 3, with one transaction per request. Since version 4 a request may have several, and
`verify_only` checks whether the partitions are already part of the transaction (KIP-890). If one
partition does not exist, none is added, and the others fail with OPERATION_NOT_ATTEMPTED.

AddOffsetsToTxn 0-4: add a group's offsets to a transaction (KIP-98). Clients that use transactions
V2 do not send it: their TxnOffsetCommit does the same.

TxnOffsetCommit 0-5: offsets that take effect when the transaction is committed (KIP-98). Since
version 3 the request may name a group member and its generation, which are then checked (KIP-447).
Up to version 4 the client sends AddOffsetsToTxn first; version 5 implies it (KIP-890).

EndTxn 0-5: commit or abort. Version 5 belongs to transactions V2 (KIP-890): every end bumps the
epoch, and the response has the new epoch, with a new producer id if the epochs are exhausted; a
retry gets the same response. In older versions the epoch does not change.

WriteTxnMarkers 1-2: write transaction markers to partitions that the node leads. The embedded
coordinator writes markers directly; this API serves `kafka-transactions abort`, which ends hanging
transactions (KIP-664). Since version 2 a marker carries the transaction version: with transactions
V2 its epoch must be newer than that of the records (KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.classic_group import CommittedOffset
from spark_kafka_sink.broker.coordinator.transaction_coordinator import (
    OFFSETS_PARTITION,
    TransactionSupportedOperation,
    Writer,
    verify,
)
from spark_kafka_sink.broker.coordinator.transaction_state import (
    NO_EPOCH,
    NO_ID,
    ProducerIdAndEpoch,
)
from spark_kafka_sink.broker.handlers.consumer_groups import (
    NO_GENERATION,
    check_coordinator,
    may_commit,
)
from spark_kafka_sink.broker.handlers.request_context import (
    Answer,
    Handler,
    RequestContext,
    check_transaction_coordinator,
)
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange
from spark_kafka_sink.records.decoder import EndTransactionMarker

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.transaction_coordinator import ProducerIdOrError
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.protocol.messages import Values


_INIT_FENCED_VERSION = 4
"""The first version whose clients handle PRODUCER_FENCED."""


def init_producer_id(context: RequestContext) -> Answer:
    """Handle the InitProducerId API."""
    expected = ProducerIdAndEpoch(
        context.get("producer_id", NO_ID), context.get("producer_epoch", NO_EPOCH)
    )
    if (expected.producer_id == NO_ID) != (expected.epoch == NO_EPOCH):
        return _refused(ErrorCode.invalid_request)
    transactional_id = context.request.transactional_id
    if transactional_id is None:
        return {"producer_id": context.cluster.new_producer_id(), "producer_epoch": 0}
    named = _initialize(context, None if expected.producer_id == NO_ID else expected)
    if isinstance(named, ProducerIdAndEpoch):
        return {"producer_id": named.producer_id, "producer_epoch": named.epoch}
    if named is ErrorCode.producer_fenced and context.version < _INIT_FENCED_VERSION:
        return _refused(ErrorCode.invalid_producer_epoch)
    return _refused(named)


def _initialize(context: RequestContext, expected: ProducerIdAndEpoch | None) -> ProducerIdOrError:
    transactional_id = context.request.transactional_id
    if error := check_transaction_coordinator(context, transactional_id):
        return error
    timeout_ms = round(context.request.transaction_timeout.total_seconds() * 1000)
    return context.cluster.transaction_coordinator.initialize(
        transactional_id, expected, timeout_ms
    )


def _refused(error: ErrorCode) -> Answer:
    return {"error_code": error, "producer_id": NO_ID, "producer_epoch": NO_EPOCH}


INIT_PRODUCER_ID = Handler(
    api=ApiKey.INIT_PRODUCER_ID, versions=VersionRange(0, 5), handle=init_producer_id
)


_ADD_PARTITIONS_FENCED_VERSION = 2
"""The first version whose clients handle PRODUCER_FENCED."""
BATCHED_VERSION = 4


def add_partitions_to_txn(context: RequestContext) -> Answer:
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
        if error is ErrorCode.producer_fenced and context.version < _ADD_PARTITIONS_FENCED_VERSION:
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
    """Return the errors if the partitions cannot be added; empty if they can."""
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


ADD_PARTITIONS_TO_TXN = Handler(
    api=ApiKey.ADD_PARTITIONS_TO_TXN, versions=VersionRange(0, 5), handle=add_partitions_to_txn
)


_ADD_OFFSETS_FENCED_VERSION = 2
"""The first version whose clients handle PRODUCER_FENCED."""


def add_offsets_to_txn(context: RequestContext) -> Answer:
    """Handle the AddOffsetsToTxn API."""
    request = context.request
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    error = check_transaction_coordinator(context, request.transactional_id)
    error = error or context.cluster.transaction_coordinator.add(
        request.transactional_id, producer, [OFFSETS_PARTITION]
    )
    if error is ErrorCode.producer_fenced and context.version < _ADD_OFFSETS_FENCED_VERSION:
        error = ErrorCode.invalid_producer_epoch
    return {"error_code": error}


ADD_OFFSETS_TO_TXN = Handler(
    api=ApiKey.ADD_OFFSETS_TO_TXN, versions=VersionRange(0, 4), handle=add_offsets_to_txn
)


ABORTABLE_VERSION = 4
ADDING_VERSION = 5
MAX_METADATA = 4096
"""Kafka's offset.metadata.max.bytes, which counts characters."""


def txn_offset_commit(context: RequestContext) -> Answer:
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
    """Add the offsets partition to the transaction.

    Return the error for all offsets of the request if that fails.
    """
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


TXN_OFFSET_COMMIT = Handler(
    api=ApiKey.TXN_OFFSET_COMMIT, versions=VersionRange(0, 5), handle=txn_offset_commit
)


_END_TXN_FENCED_VERSION = 2
"""The first version whose clients handle PRODUCER_FENCED."""
BUMPING_VERSION = 5


def end_txn(context: RequestContext) -> Answer:
    """Handle the EndTxn API."""
    request = context.request
    named = check_transaction_coordinator(
        context, request.transactional_id
    ) or context.cluster.transaction_coordinator.end(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        commit=request.committed,
        bumps=context.version >= BUMPING_VERSION,
    )
    if isinstance(named, ProducerIdAndEpoch):
        return {"producer_id": named.producer_id, "producer_epoch": named.epoch}
    if named is ErrorCode.producer_fenced and context.version < _END_TXN_FENCED_VERSION:
        named = ErrorCode.invalid_producer_epoch
    return {"error_code": named, "producer_id": NO_ID, "producer_epoch": NO_EPOCH}


END_TXN = Handler(api=ApiKey.END_TXN, versions=VersionRange(0, 5), handle=end_txn)


TRANSACTIONS_V2 = 2


def write_txn_markers(context: RequestContext) -> Answer:
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


WRITE_TXN_MARKERS = Handler(
    api=ApiKey.WRITE_TXN_MARKERS, versions=VersionRange(1, 2), handle=write_txn_markers
)
