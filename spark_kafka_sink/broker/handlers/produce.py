"""Produce, including the delayed responses for acks=all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spark_kafka_sink.broker.coordinator.transaction_state import ProducerIdAndEpoch
from spark_kafka_sink.broker.handlers.request_context import HandlerResult, NoFields, RequestContext
from spark_kafka_sink.broker.partition import log_validator
from spark_kafka_sink.broker.requests.shapes import BY_PARTITION, ItemResult, id_of, unknown_topic
from spark_kafka_sink.kafka.protocol import versions
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.message_format import optional_timestamp
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.record_batch import last_offset_delta

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.kafka.protocol.messages import FieldValues

TopicProduceData: TypeAlias = "tuple[Any, list[PartitionProduceData]]"
"""The request's item for a topic, and the data of the topic's partitions."""
_NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProduceData:
    """The records to append to a partition."""

    index: int
    records: memoryview | None
    rejected: log_validator.RejectedBatchError | None = None
    """The error of an invalid batch, if the request contains several batches for the partition. The
    response contains this error although `records` are appended.
    """


def _produce_data(topic_data: Sequence[Any]) -> list[TopicProduceData]:
    """Return the topics in the order of the request. Each partition occurs only once."""
    if len(topic_data) == 1 and len(topic_data[0].partition_data) == 1:
        data = topic_data[0].partition_data[0]
        return [(topic_data[0], [PartitionProduceData(index=data.index, records=data.records)])]
    items: dict[object, Any] = {}
    records: dict[object, dict[int, list[memoryview | None]]] = {}
    for item in topic_data:
        key = (getattr(item, "name", None), getattr(item, "topic_id", None))
        items.setdefault(key, item)
        partitions = records.setdefault(key, {})
        for data in item.partition_data:
            partitions.setdefault(data.index, []).append(data.records)
    return [
        (item, [_choose_batch(index, sent) for index, sent in records[key].items()])
        for key, item in items.items()
    ]


def _choose_batch(index: int, all_records: list[memoryview | None]) -> PartitionProduceData:
    if len(all_records) == 1:
        return PartitionProduceData(index=index, records=all_records[0])
    valid, rejected = [], None
    for records in all_records:
        try:
            log_validator.single_batch(records)
            valid.append(records)
        except log_validator.RejectedBatchError as error:
            rejected = error
    chosen = valid[-1] if valid else all_records[-1]
    return PartitionProduceData(index=index, records=chosen, rejected=rejected if valid else None)


class Unconfirmed(NamedTuple):
    """Appended records that wait for replication.

    The records are confirmed when the high watermark reaches `required_offset` in the same leader
    epoch. After a change of the leader, the records might have been dropped, even if the former
    leader leads again.
    """

    partition: Partition
    required_offset: int
    leader_epoch: int

    def result(self) -> ErrorCode | None:
        """Return the error or `none` if the records are confirmed; None while they are not."""
        partition = self.partition
        if partition.leader_epoch != self.leader_epoch:
            return ErrorCode.not_leader_or_follower
        if partition.high_watermark < self.required_offset:
            return None
        if not partition.log.storage.request_replication(self.required_offset):
            return None
        if len(partition.in_sync) < partition.min_in_sync:
            return ErrorCode.not_enough_replicas_after_append
        return ErrorCode.none


@dataclass(slots=True)
class DelayedProduce:
    """The unconfirmed partitions of one request."""

    _waiting: list[Unconfirmed]
    _errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict, init=False)

    @property
    def keys(self) -> tuple[TopicPartition, ...]:
        """The topic-partitions for which the request waits."""
        return tuple(waiting.partition.topic_partition for waiting in self._waiting)

    def try_complete(self) -> bool:
        """Drop the partitions that are replicated or failed. Return True if none remain."""
        results = [(waiting, waiting.result()) for waiting in self._waiting]
        self._waiting = [waiting for waiting, result in results if result is None]
        self._errors |= {
            waiting.partition.topic_partition: result for waiting, result in results if result
        }
        return not self._waiting

    def errors(self) -> Mapping[TopicPartition, ErrorCode]:
        """Return the errors by partition. Partitions that are still unconfirmed have timed out."""
        self.try_complete()
        return self._errors | dict.fromkeys(self.keys, ErrorCode.request_timed_out)


def produce(context: RequestContext) -> HandlerResult:
    """Append batches to partitions (Produce 3-13).

    ApiVersions announces versions 0-2 because librdkafka requires them (KAFKA-18659), but requests
    of these versions fail.

    acks must be -1, 0 or 1. Other values fail with INVALID_REQUIRED_ACKS. With acks=0 there is no
    response, and an error closes the connection. With acks=-1 the response is delayed until all
    in-sync replicas have the records, or the request's timeout has passed. As in Kafka's
    DelayedProduce, waiting requests are indexed by topic-partition, and rechecked if the high
    watermark or the in-sync replicas of one of their partitions change.

    Each partition accepts one batch of format 2 (partition/log_validator.py). The sequence numbers
    of idempotent producers are checked (partition/producer_state.py). A request can contain a
    partition more than once. As in Kafka (``KafkaApis.handleProduceRequest``), the last valid batch
    is appended in this case, but if another batch is invalid, the response contains its error.

    A transactional batch is accepted only if its partition is part of the transaction
    (coordinator/transaction_coordinator.py). Since version 12, the broker adds the partition
    (KIP-890).

    Responses contain the invalid records since version 8 (KIP-467) and the current leader since
    version 10 (KIP-951). Topics are identified by id since version 13 (KIP-516).
    """
    unconfirmed: list[Unconfirmed] = []
    topics = _produce_data(context.request.topic_data)
    _add_to_transaction(context, topics)
    responses = [_append_to_topic(context, item, data, unconfirmed) for item, data in topics]
    partitions = [part for response in responses for part in response["partition_responses"]]
    now = context.cluster.clock.monotonic()
    for waiting in unconfirmed:
        context.cluster.replica_manager.advance(waiting.partition, now)
        context.cluster.purgatory.wake(waiting.partition.topic_partition)
    if context.request.acks == 0:
        failed = any(part["error_code"] is not ErrorCode.none for part in partitions)
        return NoFields.CLOSE if failed else NoFields.NO_RESPONSE
    leaders = [part["current_leader"] for part in partitions if "current_leader" in part]
    endpoints = context.endpoints({leader["leader_id"] for leader in leaders})
    values = {"responses": responses, "node_endpoints": endpoints}
    return values if context.request.acks == 1 else _when_replicated(context, unconfirmed, values)


def _add_to_transaction(context: RequestContext, topics: list[TopicProduceData]) -> None:
    """Add the request's partitions to the transaction, if the broker has to do so.

    Each change of a transaction is saved with all its partitions, so adding them one at a time
    would take quadratic time. If this fails, `_check_transaction` gets the same error for each
    partition.
    """
    transactional_id = context.request.transactional_id
    if context.version < versions.PRODUCE_ADDS_PARTITIONS or transactional_id is None:
        return
    added: dict[ProducerIdAndEpoch, list[TopicPartition]] = {}
    for item, partitions in topics:
        topic = context.find_topic(item)
        for data in partitions:
            partition = topic and topic.partition(data.index)
            header = log_validator.transactional_header(data.records)
            if not partition or not header or partition.leader != context.node:
                continue
            if header.producer_id >= 0 and not partition.is_ongoing(header):
                producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
                added.setdefault(producer, []).append(partition.topic_partition)
    for producer, keys in added.items():
        context.cluster.transaction_coordinator.add(transactional_id, producer, keys)


def _when_replicated(
    context: RequestContext, unconfirmed: list[Unconfirmed], values: FieldValues
) -> HandlerResult:
    delayed = DelayedProduce(unconfirmed)

    def response() -> FieldValues:
        return _with_errors(values, delayed.errors())

    if delayed.try_complete():
        return response()
    return context.wait(context.request.timeout, delayed.try_complete, response, delayed.keys)


def _with_errors(values: FieldValues, errors: Mapping[TopicPartition, ErrorCode]) -> FieldValues:
    """Return the response with the errors of partitions that were not replicated."""
    if not errors:
        return values
    responses = []
    for topic in values["responses"]:
        partitions = [
            {**partition, "error_code": errors.get(key, partition["error_code"])}
            for partition in topic["partition_responses"]
            for key in [TopicPartition(topic["name"], partition["index"])]
        ]
        responses.append({**topic, "partition_responses": partitions})
    return {**values, "responses": responses}


def _append_to_topic(
    context: RequestContext,
    item: Any,
    partitions: list[PartitionProduceData],
    unconfirmed: list[Unconfirmed],
) -> dict[str, Any]:
    """Append to the partitions of a topic, and add the appended records to `unconfirmed`."""
    topic = context.find_topic(item)
    shape = BY_PARTITION[versions.ApiKey.PRODUCE]
    responses = []
    for data in partitions:
        result = _append_to_partition(context, topic, item, data)
        response = shape.partition_response(data, result)
        responses.append(response)
        partition = topic.partition(data.index) if topic else None
        if partition is not None and response["error_code"] is ErrorCode.none:
            end = response["base_offset"] + int(last_offset_delta(data.records or b"")) + 1
            unconfirmed.append(Unconfirmed(partition, end, partition.leader_epoch))
    return {
        # The name is logged even if the request contains ids.
        "name": context.topic_name(item),
        "topic_id": id_of(item),
        "partition_responses": responses,
    }


def _append_to_partition(
    context: RequestContext, topic: Topic | None, item: Any, data: PartitionProduceData
) -> ItemResult:
    if context.request.acks not in {-1, 0, 1}:
        return ErrorCode.invalid_required_acks
    if topic is None:
        return unknown_topic(item)
    partition = topic.partition(data.index)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    if partition.leader != context.node:
        error = _failed_response(ErrorCode.not_leader_or_follower)
        return error | {"current_leader": partition.current_leader}
    if unverified := _check_transaction(context, partition, data.records):
        return unverified
    if context.request.acks == -1 and len(partition.in_sync) < partition.min_in_sync:
        return ErrorCode.not_enough_replicas
    result = _append_batch(context, partition, data.records)
    return _reject_batch(context, partition, data.rejected) if data.rejected else result


def _check_transaction(
    context: RequestContext, partition: Partition, records: memoryview | None
) -> ErrorCode:
    """Return an error if a batch is transactional and its transaction lacks the partition."""
    header = log_validator.transactional_header(records)
    if header is None:
        return ErrorCode.none
    transactional_id = context.request.transactional_id
    if transactional_id is None:
        return ErrorCode.transactional_id_authorization_failed
    if header.producer_id < 0 or partition.is_ongoing(header):
        return ErrorCode.none
    adds_partitions = context.version >= versions.PRODUCE_ADDS_PARTITIONS
    partition.transactions.verify(header, starts_at_zero=adds_partitions)
    error = context.cluster.transaction_coordinator.add_or_verify(
        transactional_id,
        ProducerIdAndEpoch(header.producer_id, header.producer_epoch),
        partition.topic_partition,
        adds_partitions=adds_partitions,
        knows_abortable=context.version >= versions.PRODUCE_WITH_ABORTABLE_ERROR,
    )
    is_retriable = error is ErrorCode.concurrent_transactions
    return ErrorCode.not_enough_replicas if is_retriable else error


def _append_batch(
    context: RequestContext, partition: Partition, records: memoryview | None
) -> dict[str, Any]:
    now_ms = context.cluster.clock.wall_ms()
    options = log_validator.AppendOptions(
        config=partition.config, produce_version=context.version, now_ms=now_ms
    )
    try:
        appended = partition.append(records, options)
    except log_validator.RejectedBatchError as error:
        return _reject_batch(context, partition, error)
    return {
        "error_code": ErrorCode.none,
        "base_offset": appended.base_offset,
        "log_append_time": optional_timestamp(appended.append_time),
        "log_start_offset": partition.log.start_offset,
    }


def _reject_batch(
    context: RequestContext, partition: Partition, error: log_validator.RejectedBatchError
) -> dict[str, Any]:
    context.explain(str(partition.topic_partition), error.message)
    record_errors = [
        {"batch_index": index, "batch_index_error_message": message}
        for index, message in error.records.items()
    ]
    rejected = _failed_response(error.code) | {"record_errors": record_errors}
    if error.has_public_message:
        rejected["error_message"] = error.message
    start = _NO_OFFSET if error.is_early else partition.log.start_offset
    return rejected | {"log_start_offset": start}


def _failed_response(error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, **BY_PARTITION[versions.ApiKey.PRODUCE].failed}
