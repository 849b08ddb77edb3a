"""Produce 3-13; 0-2 are announced, as librdkafka needs that (KAFKA-18659), but refused.

Acks -1, 0 and 1; others are INVALID_REQUIRED_ACKS. With acks=0 there is no answer, and an error
ends the connection; acks=-1 waits for all replicas in sync, at most for the request's timeout
(delayed_produce.py). One batch of format 2 per partition (partition/log_validator.py); idempotent
sequences (partition/producer_state_manager.py). Single records are named since version 8 (KIP-467),
the leader to go to since version 10 (KIP-951), topics by id since version 13 (KIP-516). Batches of
a transaction need its partition to be part of it (coordinator/transaction_verification.py), since
version 12 they make it so (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.transaction_metadata import ProducerIdAndEpoch
from spark_kafka_sink.broker.coordinator.transaction_verification import (
    TransactionSupportedOperation,
    Writer,
    verify,
)
from spark_kafka_sink.broker.handlers.delayed_produce import DelayedProduce, Unconfirmed
from spark_kafka_sink.broker.handlers.produce_data import (
    PartitionProduceData,
    TopicProduceData,
    produce_data,
)
from spark_kafka_sink.broker.handlers.request_context import (
    REASON,
    Answer,
    Handler,
    Outcome,
    RequestContext,
)
from spark_kafka_sink.broker.handlers.request_lookups import (
    current_leader,
    endpoints,
    id_of,
    missing,
    name_of,
    topic_of,
)
from spark_kafka_sink.broker.partition.append_options import AppendOptions
from spark_kafka_sink.broker.partition.log_validator import transactional_header
from spark_kafka_sink.broker.partition.refused_batch import RefusedBatchError
from spark_kafka_sink.protocol.primitives import optional_timestamp
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange
from spark_kafka_sink.records.record_batch import last_offset_delta

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.protocol.message_builder import Values

NO_OFFSET = -1
ABORTABLE_VERSION = 11
ADDING_VERSION = 12


def handle(context: RequestContext) -> Answer:
    """Handle the Produce API."""
    unconfirmed: list[Unconfirmed] = []
    topics = produce_data(context.request.topic_data)
    responses = [_topic(context, one, unconfirmed) for one in topics]
    partitions = [p for response in responses for p in response["partition_responses"]]
    for one in unconfirmed:
        context.cluster.replica_manager.advance(one.partition, context.cluster.clock.monotonic())
        context.cluster.purgatory.wake(one.key)
    if context.request.acks == 0:
        failed = any(p["error_code"] is not ErrorCode.none for p in partitions)
        return Outcome.CLOSE if failed else Outcome.SILENT
    leaders = {p["current_leader"]["leader_id"] for p in partitions if "current_leader" in p}
    values = {"responses": responses, "node_endpoints": endpoints(context, leaders)}
    return values if context.request.acks == 1 else _when_replicated(context, unconfirmed, values)


def _when_replicated(
    context: RequestContext, unconfirmed: list[Unconfirmed], values: Values
) -> Answer:
    waiting = DelayedProduce(unconfirmed, context.cluster.replica_manager.least_in_sync)
    if waiting.try_complete():
        return values

    def late() -> Values:
        waiting.expire()
        return values

    return context.wait(context.request.timeout, waiting.try_complete, late, waiting.keys)


def _topic(
    context: RequestContext, one: TopicProduceData, unconfirmed: list[Unconfirmed]
) -> dict[str, Any]:
    """Append to the partitions of a topic; what is in their logs now joins `unconfirmed`."""
    topic = topic_of(context, one.item)
    answers = []
    for data in one.partitions:
        answer = _partition(context, topic, one.item, data)
        answers.append(answer)
        partition = topic.partition(data.index) if topic else None
        if partition is not None and answer["error_code"] is ErrorCode.none:
            unconfirmed.append(_unconfirmed(context, partition, data, answer))
    return {
        "name": topic.name if topic else name_of(one.item),  # for the log also where ids are used
        "topic_id": id_of(one.item),
        "partition_responses": answers,
    }


def _unconfirmed(
    context: RequestContext,
    partition: Partition,
    data: PartitionProduceData,
    answer: dict[str, Any],
) -> Unconfirmed:
    """What was appended waits for the high watermark behind its last record."""
    last = answer["base_offset"] + last_offset_delta(data.records or b"")
    return Unconfirmed(
        partition=partition,
        required_offset=int(last) + 1,
        leader=context.node,
        response=answer,
    )


def _partition(
    context: RequestContext, topic: Topic | None, item: Any, data: PartitionProduceData
) -> dict[str, Any]:
    if context.request.acks not in {-1, 0, 1}:
        return _failed(data.index, ErrorCode.invalid_required_acks)
    if topic is None:
        return _failed(data.index, missing(item))
    partition = topic.partition(data.index)
    if partition is None:
        return _failed(data.index, ErrorCode.unknown_topic_or_partition)
    if partition.leader != context.node:
        error = _failed(data.index, ErrorCode.not_leader_or_follower)
        return error | {"current_leader": current_leader(partition)}
    if unverified := _verify(context, partition, data.records):
        return _failed(data.index, unverified)
    if context.request.acks == -1 and _lacks_replicas(context, partition):
        return _failed(data.index, ErrorCode.not_enough_replicas)
    answer = _append(context, topic, partition, data.records)
    return _refused(partition, data.refused) if data.refused else answer


def _verify(context: RequestContext, partition: Partition, records: memoryview | None) -> ErrorCode:
    """Ask the coordinator about a batch of a transaction; a client must say which one it is."""
    header = transactional_header(records)
    if header is None:
        return ErrorCode.none
    transactional_id = context.request.transactional_id
    if transactional_id is None:
        return ErrorCode.transactional_id_authorization_failed
    if header.producer_id < 0 or partition.is_ongoing(header):
        return ErrorCode.none
    supported_operation = TransactionSupportedOperation.of(
        context.version, generic_errors=ABORTABLE_VERSION, adding=ADDING_VERSION
    )
    partition.transactions.verify(
        header, starts_at_zero=supported_operation is TransactionSupportedOperation.ADD_PARTITION
    )
    producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
    writer = Writer(
        transactional_id=transactional_id,
        producer=producer,
        supported_operation=supported_operation,
    )
    topic_partition = (partition.topic, partition.index)
    error = verify(context.cluster.transaction_coordinator, writer, topic_partition)
    retried = error is ErrorCode.concurrent_transactions
    return ErrorCode.not_enough_replicas if retried else error


def _lacks_replicas(context: RequestContext, partition: Partition) -> bool:
    return len(partition.in_sync) < context.cluster.replica_manager.least_in_sync(partition)


def _append(
    context: RequestContext, topic: Topic, partition: Partition, records: memoryview | None
) -> dict[str, Any]:
    now_ms = context.cluster.clock.wall_ms()
    options = AppendOptions(
        config=topic.config, produce_version=context.version, now_ms=now_ms, verified=True
    )
    try:
        appended = partition.append(records, options)
    except RefusedBatchError as error:
        return _refused(partition, error)
    return {
        "index": partition.index,
        "error_code": ErrorCode.none,
        "base_offset": appended.base_offset,
        "log_append_time": optional_timestamp(appended.append_time),
        "log_start_offset": partition.log.start_offset,
    }


def _refused(partition: Partition, error: RefusedBatchError) -> dict[str, Any]:
    bad = [
        {"batch_index": index, "batch_index_error_message": message}
        for index, message in error.records.items()
    ]
    refused = _failed(partition.index, error.error) | {"record_errors": bad, REASON: error.message}
    if error.is_told:
        refused["error_message"] = error.message
    start = NO_OFFSET if error.is_early else partition.log.start_offset
    return refused | {"log_start_offset": start}


def _failed(index: int, error: ErrorCode) -> dict[str, Any]:
    return {
        "index": index,
        "error_code": error,
        "base_offset": NO_OFFSET,
        "log_append_time": None,
        "log_start_offset": NO_OFFSET,
    }


HANDLER = Handler(
    api=ApiKey.PRODUCE,
    versions=VersionRange(3, 13),
    handle=handle,
    announced=VersionRange(0, 13),
)
