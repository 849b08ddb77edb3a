"""The transaction APIs of producers, WriteTxnMarkers, and description APIs."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.broker.coordinator.transaction_coordinator import OFFSETS_PARTITION
from spark_kafka_sink.broker.coordinator.transaction_state import ProducerIdAndEpoch
from spark_kafka_sink.broker.handlers.group_offsets import committed_offset, may_commit
from spark_kafka_sink.broker.handlers.request_context import result_of
from spark_kafka_sink.broker.requests.shapes import BY_PARTITION, MARKER_TOPICS
from spark_kafka_sink.kafka.protocol import versions
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.message_format import timestamp
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker
from spark_kafka_sink.kafka.records.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.broker.coordinator.transaction_coordinator import ProducerIdOrError
    from spark_kafka_sink.broker.coordinator.transaction_state import TransactionMetadata
    from spark_kafka_sink.broker.handlers.request_context import HandlerResult, RequestContext
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


_FENCED_SINCE = {
    versions.ApiKey.INIT_PRODUCER_ID: 4,
    versions.ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    versions.ApiKey.ADD_OFFSETS_TO_TXN: 2,
    versions.ApiKey.END_TXN: 2,
}
"""First version of each API in which clients support PRODUCER_FENCED."""
_ADD_TO_SEVERAL = 4
"""First version of AddPartitionsToTxn for several transactions."""
_END_BUMPS_EPOCH = 5
"""First version of EndTxn that increments the producer epoch (KIP-890)."""
_TRANSACTIONS_V2 = 2
"""Level of transaction.version of markers with an incremented epoch (KIP-890)."""


def _error_for_client(error: ErrorCode, context: RequestContext) -> ErrorCode:
    """Return the error for the response. For older clients, PRODUCER_FENCED is replaced."""
    is_fenced = error is ErrorCode.producer_fenced and context.version < _FENCED_SINCE[context.api]
    return ErrorCode.invalid_producer_epoch if is_fenced else error


def init_producer_id(context: RequestContext) -> HandlerResult:
    """Return a new producer id, or the producer id of a transactional id (InitProducerId 0-5).

    Without a transactional id, the producer id is new and its epoch is 0 (KIP-98). With a
    transactional id, the response contains its producer id with the next epoch, which fences older
    producers. If a transaction of an older producer is open, it is aborted first, and
    CONCURRENT_TRANSACTIONS makes the client retry. Since version 3, a producer can send its current
    id and epoch (KIP-360); the request fails if a newer producer exists. Without a transactional
    id, both fields are ignored.
    """
    expected = ProducerIdAndEpoch(
        context.get("producer_id", NO_PRODUCER_ID), context.get("producer_epoch", NO_PRODUCER_EPOCH)
    )
    if (expected.producer_id == NO_PRODUCER_ID) != (expected.epoch == NO_PRODUCER_EPOCH):
        return _producer_fields(context, ErrorCode.invalid_request)
    transactional_id = context.request.transactional_id
    if transactional_id is None:
        producer_id = context.cluster.transaction_coordinator.producer_ids.next()
        return {"producer_id": producer_id, "producer_epoch": 0}
    if error := context.transaction_coordinator_error(transactional_id):
        return _producer_fields(context, error)
    timeout_ms = round(context.request.transaction_timeout.total_seconds() * 1000)
    result = context.cluster.transaction_coordinator.initialize(
        transactional_id, None if expected.producer_id == NO_PRODUCER_ID else expected, timeout_ms
    )
    return _producer_fields(context, result)


def _producer_fields(context: RequestContext, result: ProducerIdOrError) -> HandlerResult:
    if isinstance(result, ProducerIdAndEpoch):
        return {"producer_id": result.producer_id, "producer_epoch": result.epoch}
    error = _error_for_client(result, context)
    return {"error_code": error, "producer_id": NO_PRODUCER_ID, "producer_epoch": NO_PRODUCER_EPOCH}


def add_partitions_to_txn(context: RequestContext) -> HandlerResult:
    """Add partitions to a transaction before records are written to them (AddPartitionsToTxn 0-5).

    Clients use versions up to 3, with one transaction per request. Since version 4, a request can
    contain several transactions, and `verify_only` checks whether the partitions are already part
    of the transaction (KIP-890). If a partition does not exist, no partition is added, and the
    error for the existing partitions is OPERATION_NOT_ATTEMPTED.
    """
    request = context.request
    if context.version >= _ADD_TO_SEVERAL:
        results = [_add_transaction(context, item) for item in request.transactions]
        return {"results_by_transaction": results}
    producer = ProducerIdAndEpoch(
        request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
    )
    topics, name = request.v3_and_below_topics, request.v3_and_below_transactional_id
    errors = _add_partitions(context, name, producer, topics, verify_only=False)
    return {"results_by_topic_v3_and_below": _partition_errors(topics, errors)}


def _add_transaction(context: RequestContext, item: Any) -> FieldValues:
    producer = ProducerIdAndEpoch(item.producer_id, item.producer_epoch)
    name = item.transactional_id
    errors = _add_partitions(context, name, producer, item.topics, verify_only=item.verify_only)
    return {"transactional_id": name, "topic_results": _partition_errors(item.topics, errors)}


def _add_partitions(
    context: RequestContext,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    topics: Any,
    *,
    verify_only: bool,
) -> dict[TopicPartition, ErrorCode]:
    """Add partitions to a transaction, or verify that it includes them. Return their errors."""
    partitions = [TopicPartition(item.name, index) for item in topics for index in item.partitions]
    unknown = {key for key in partitions if context.cluster.topics.partition(*key) is None}
    if unknown:
        others = dict.fromkeys(partitions, ErrorCode.operation_not_attempted)
        return others | dict.fromkeys(unknown, ErrorCode.unknown_topic_or_partition)
    coordinator = context.cluster.transaction_coordinator
    error = context.transaction_coordinator_error(transactional_id)
    if not error and verify_only:
        return {key: coordinator.verify(transactional_id, producer, key) for key in partitions}
    error = error or coordinator.add(transactional_id, producer, partitions)
    return dict.fromkeys(partitions, _error_for_client(error, context))


def _partition_errors(topics: Any, errors: dict[TopicPartition, ErrorCode]) -> list[FieldValues]:
    shape = BY_PARTITION[versions.ApiKey.ADD_PARTITIONS_TO_TXN]

    def error(name: str, index: int) -> ErrorCode:
        return errors[TopicPartition(name, index)]

    return [shape.topic_response(topic, partial(error, topic.name)) for topic in topics]


def add_offsets_to_txn(context: RequestContext) -> HandlerResult:
    """Add a group's offsets to a transaction (AddOffsetsToTxn 0-4, KIP-98).

    Clients that use transactions V2 do not send this request, because TxnOffsetCommit also adds the
    group.
    """
    request = context.request
    error = context.transaction_coordinator_error(request.transactional_id)
    error = error or context.cluster.transaction_coordinator.add(
        request.transactional_id, _requested_producer(context), [OFFSETS_PARTITION]
    )
    return {"error_code": _error_for_client(error, context)}


def txn_offset_commit(context: RequestContext) -> HandlerResult:
    """Store offsets that take effect when the transaction is committed (KIP-98).

    TxnOffsetCommit 0-5: since version 3, the request can contain a group member and its generation,
    which are checked (KIP-447). Up to version 4, the client must send AddOffsetsToTxn first;
    version 5 includes this step (KIP-890).
    """
    exists = {
        key
        for item in context.request.topics
        for partition in item.partitions
        for key in [TopicPartition(item.name, partition.partition_index)]
        if context.cluster.topics.partition(*key) is not None
    }
    error = _join_transaction(context) if exists else ErrorCode.none

    def commit(item: Any, requested: Any) -> ErrorCode:
        topic_partition = TopicPartition(item.name, requested.partition_index)
        if topic_partition not in exists:
            return ErrorCode.unknown_topic_or_partition
        if error:
            return error
        group_id = context.request.group_id
        offset = committed_offset(context, requested)
        context.cluster.group_coordinator.get_or_create(group_id)
        context.cluster.transactional_offsets.add(
            _requested_producer(context), group_id, topic_partition, offset
        )
        return ErrorCode.none

    return context.handle_each_partition(commit)


def _requested_producer(context: RequestContext) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(context.request.producer_id, context.request.producer_epoch)


def _join_transaction(context: RequestContext) -> ErrorCode:
    """Add the offsets partition to the transaction. Return an error that applies to all offsets."""
    offsets = context.cluster.transactional_offsets
    producer = _requested_producer(context)
    error = context.group_coordinator_error()
    if not error and not offsets.is_ongoing(producer):
        error = context.cluster.transaction_coordinator.add_or_verify(
            context.request.transactional_id,
            producer,
            OFFSETS_PARTITION,
            adds_partitions=context.version >= versions.OFFSET_COMMIT_ADDS_GROUP,
            knows_abortable=context.version >= versions.OFFSET_COMMIT_WITH_ABORTABLE_ERROR,
        )
    generation = context.get("generation_id", -1)
    error = error or may_commit(context, generation, in_transaction=True)
    error = error or offsets.check_epoch(producer)
    if not error:
        offsets.begin(producer)
    return error


def end_txn(context: RequestContext) -> HandlerResult:
    """Commit or abort a transaction (EndTxn 0-5).

    Version 5 is used for transactions V2 (KIP-890): every request increments the epoch. The
    response contains the new epoch, and a new producer id if the epochs are exhausted. The response
    to a retry is the same. In older versions, the epoch does not change.
    """
    request = context.request
    result = context.transaction_coordinator_error(
        request.transactional_id
    ) or context.cluster.transaction_coordinator.end(
        request.transactional_id,
        _requested_producer(context),
        commit=request.committed,
        bumps_epoch=context.version >= _END_BUMPS_EPOCH,
    )
    return _producer_fields(context, result)


def write_txn_markers(context: RequestContext) -> HandlerResult:
    """Write transaction markers to partitions that the node leads (WriteTxnMarkers 1-2).

    The embedded coordinator writes markers directly. This API is for `kafka-transactions abort`,
    which aborts hanging transactions (KIP-664). Since version 2, a marker contains the transaction
    version. With transactions V2, the epoch of a marker must be newer than the epoch of the records
    (KIP-1228).
    """
    return {"markers": [_write_marker(context, item) for item in context.request.markers]}


def _write_marker(context: RequestContext, item: Any) -> FieldValues:
    marker = EndTransactionMarker(
        producer_id=item.producer_id,
        epoch=item.producer_epoch,
        is_commit=item.transaction_result,
        coordinator_epoch=item.coordinator_epoch,
    )
    is_v2 = getattr(item, "transaction_version", 0) >= _TRANSACTIONS_V2
    coordinator = context.cluster.transaction_coordinator

    def write(name: str, index: int) -> ErrorCode:
        partition = context.led_partition(name, index)
        error = partition.marker_error(marker, is_v2=is_v2)
        if not error and not coordinator.write_marker(TopicPartition(name, index), marker):
            return ErrorCode.kafka_storage_error
        return error

    topics = [
        MARKER_TOPICS.topic_response(topic, partial(result_of, write, topic.name))
        for topic in item.topics
    ]
    return {"producer_id": item.producer_id, "topics": topics}


def describe_transaction(context: RequestContext, name: str) -> FieldValues | ErrorCode:
    """Return the state of a transactional id (DescribeTransactions 0, KIP-664)."""
    error = context.transaction_coordinator_error(name) if name else ErrorCode.invalid_request
    txn = context.cluster.transaction_coordinator.find(name)
    if error or txn is None:
        return error or ErrorCode.transactional_id_not_found
    partitions: dict[str, list[int]] = {}
    for topic, index in sorted(txn.partitions):
        partitions.setdefault(topic, []).append(index)
    return {
        "transaction_state": str(txn.state),
        "transaction_timeout": timedelta(milliseconds=txn.timeout_ms),
        "transaction_start_time": timestamp(txn.started_ms),
        "producer_id": txn.producer_id,
        "producer_epoch": txn.epoch,
        "topics": [
            {"topic": topic, "partitions": indexes} for topic, indexes in partitions.items()
        ],
    }


def list_transactions(context: RequestContext) -> HandlerResult:
    """Return the transactional ids that the receiving node coordinates (ListTransactions 0-2).

    Requests can filter by state and producer id, since version 1 also by the duration of open
    transactions (KIP-994), and since version 2 by a regular expression for the whole transactional
    id (KIP-1152).
    """
    transactions = context.cluster.transaction_coordinator.all()
    try:
        matches = _match_pattern(context.get("transactional_id_pattern", None), transactions)
    except pa.ArrowInvalid:
        return {"error_code": ErrorCode.invalid_regular_expression}
    request = context.request
    now_ms = context.cluster.clock.wall_ms()
    matching = [
        txn
        for txn, is_match in zip(transactions, matches, strict=True)
        if context.coordinates(txn.id)
        and context.allows(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, txn.id)
        and is_match
        and (not request.state_filters or txn.state in request.state_filters)
        and (not request.producer_id_filters or txn.producer_id in request.producer_id_filters)
        and now_ms - txn.started_ms > context.get("duration_filter", -1)
    ]
    known = set(TransactionState) - {TransactionState.UNKNOWN}
    return {
        "unknown_state_filters": [state for state in request.state_filters if state not in known],
        "transaction_states": [
            {
                "transactional_id": txn.id,
                "producer_id": txn.producer_id,
                "transaction_state": str(txn.state),
            }
            for txn in matching
        ],
    }


def _match_pattern(pattern: str | None, transactions: Sequence[TransactionMetadata]) -> list[bool]:
    """Return which transactional ids match the pattern of a client.

    RE2, like Kafka's RE2/J, takes linear time; Python's `re` could block the broker for hours.
    """
    if not pattern:
        return [True] * len(transactions)
    ids = pa.array([txn.id for txn in transactions], pa.string())
    matches = pc.match_substring_regex(ids, rf"(?s)\A(?:{pattern})\z")
    return [bool(match) for match in matches.to_pylist()]


def describe_producers(context: RequestContext, item: Any, index: int) -> FieldValues | ErrorCode:
    """Return the producers of a partition with a replica on the node.

    DescribeProducers 0 (KIP-664).
    """
    partition = context.partition(item.name, index)
    if context.node not in partition.replicas:
        return ErrorCode.not_leader_or_follower
    return {
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": entry.epoch,
                "last_sequence": entry.last_sequence,
                "last_timestamp": entry.last_timestamp,
                "coordinator_epoch": entry.coordinator_epoch,
                "current_txn_start_offset": partition.transactions.ongoing.get(producer_id, -1),
            }
            for producer_id, entry in partition.producers.entries.items()
        ]
    }
