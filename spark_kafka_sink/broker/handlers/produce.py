"""Produce 3-13; 0-2 are announced, as librdkafka needs that (KAFKA-18659), but refused.

Acks -1, 0 and 1; others are INVALID_REQUIRED_ACKS. With acks=0 there is no answer, and an error
ends the connection. One batch of format 2 per partition (validation.py); idempotent sequences
(producers.py). Single records are named since version 8 (KIP-467), the leader to go to since
version 10 (KIP-951), topics by id since version 13 (KIP-516). Transactions are refused.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.call import Answer, Call, Handler, Outcome
from spark_kafka_sink.broker.handlers.lookup import (
    current_leader,
    endpoints,
    id_of,
    missing,
    name_of,
    topic_of,
)
from spark_kafka_sink.broker.partition import NO_TIME, Partition
from spark_kafka_sink.broker.validation import RefusedBatchError, Rules
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.topics import Topic

NO_OFFSET = -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def handle(call: Call) -> Answer:
    """See the module."""
    responses = [_topic(call, item) for item in call.request.topic_data]
    call.cluster.delayed.wake()
    partitions = [p for response in responses for p in response["partition_responses"]]
    if call.request.acks == 0:
        failed = any(p["error_code"] is not ErrorCode.none for p in partitions)
        return Outcome.CLOSE if failed else Outcome.SILENT
    leaders = {p["current_leader"]["leader_id"] for p in partitions if "current_leader" in p}
    return {"responses": responses, "node_endpoints": endpoints(call, leaders)}


def _topic(call: Call, item: Any) -> dict[str, Any]:
    topic = topic_of(call, item)
    return {
        "name": name_of(item),
        "topic_id": id_of(item),
        "partition_responses": [_partition(call, topic, item, p) for p in item.partition_data],
    }


def _partition(call: Call, topic: Topic | None, item: Any, data: Any) -> dict[str, Any]:
    if call.request.acks not in {-1, 0, 1}:
        return _failed(data.index, ErrorCode.invalid_required_acks)
    if topic is None:
        return _failed(data.index, missing(item))
    partition = topic.partition(data.index)
    if partition is None:
        return _failed(data.index, ErrorCode.unknown_topic_or_partition)
    if partition.leader != call.node:
        error = _failed(data.index, ErrorCode.not_leader_or_follower)
        return error | {"current_leader": current_leader(partition)}
    if call.request.acks == -1 and _lacks_replicas(topic, partition):
        return _failed(data.index, ErrorCode.not_enough_replicas)
    return _append(call, topic, partition, data.records)


def _lacks_replicas(topic: Topic, partition: Partition) -> bool:
    return len(partition.in_sync) < int(topic.config["min.insync.replicas"])


def _append(
    call: Call, topic: Topic, partition: Partition, records: memoryview | None
) -> dict[str, Any]:
    now_ms = call.cluster.clock.wall_ms()
    rules = Rules(config=topic.config, produce_version=call.version, now_ms=now_ms)
    try:
        appended = partition.append(records, rules)
    except RefusedBatchError as error:
        bad = [
            {"batch_index": index, "batch_index_error_message": message}
            for index, message in error.records.items()
        ]
        refused = _failed(partition.index, error.error)
        return refused | {"error_message": error.message, "record_errors": bad}
    stamped = None
    if appended.append_time != NO_TIME:
        stamped = _EPOCH + timedelta(milliseconds=appended.append_time)
    return {
        "index": partition.index,
        "error_code": ErrorCode.none,
        "base_offset": appended.base_offset,
        "log_append_time": stamped,
        "log_start_offset": partition.log.start_offset,
    }


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
