"""Topics and their records, partition reassignments and leader elections."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.cluster.topics import TopicSpec
from spark_kafka_sink.broker.config.topic_config import TOPIC_KEYS
from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.broker.requests.shapes import name_of, unknown_topic
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from spark_kafka_sink.broker.handlers.request_context import HandlerResult, RequestContext
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


_HIGH_WATERMARK = -1
"""Offset in DeleteRecords that represents the high watermark."""
_PREFERRED = 0
_UNCLEAN = 1
"""Values of election_type in ElectLeaders."""
_ELECTION_MESSAGES = {
    ErrorCode.invalid_request: "Unknown election type.",
    ErrorCode.unknown_topic_or_partition: "No such topic or partition",
    ErrorCode.election_not_needed: "Leader election not needed for topic partition.",
    ErrorCode.preferred_leader_not_available: "The preferred leader was not available.",
    ErrorCode.eligible_leaders_not_available: "Eligible topic partition leaders are not available.",
}


def create_topics(context: RequestContext) -> HandlerResult:
    """Create topics (CreateTopics 2-7).

    Topics are created with a partition count and replication factor, or with explicit assignments.
    Unknown and invalid configs are rejected (config/topic_config.py). The response contains the
    configs of the new topic since version 5 (KIP-525) and its id since version 7.
    """
    names = Counter(item.name for item in context.request.topics)
    topics = tuple({item.name: item for item in context.request.topics}.values())
    unique = context._replace(request=replace(context.request, topics=topics))
    return unique.handle_each_item(partial(_create_topic, context, names))


def _create_topic(context: RequestContext, names: Counter[str], item: Any) -> FieldValues:
    topics = context.cluster.topics
    new = TopicSpec(
        name=item.name,
        partitions=item.num_partitions,
        replication_factor=item.replication_factor,
        assignments={
            replicas.partition_index: list(replicas.broker_ids) for replicas in item.assignments
        },
        configs={config.name: config.value for config in item.configs},
    )
    if names[item.name] > 1:
        raise ResponseError(ErrorCode.invalid_request, "Duplicate topic name.")
    if len(new.assignments) < len(item.assignments):
        message = "Found multiple manual partition assignments for one partition."
        raise ResponseError(ErrorCode.invalid_replica_assignment, message)
    topics.check(new)
    create = topics.draft if context.request.validate_only else topics.create
    return _describe_created(create(new))


def _describe_created(topic: Topic) -> FieldValues:
    return {
        "topic_id": topic.id,
        "num_partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "configs": [
            {
                "name": name,
                "value": topic.config[name],
                "read_only": False,
                "config_source": int(topic.config.source(name)),
                "is_sensitive": False,
            }
            for name in TOPIC_KEYS
        ],
    }


def create_partitions(context: RequestContext) -> HandlerResult:
    """Add partitions to topics, optionally on specified nodes (CreatePartitions 0-3).

    The errors are INVALID_PARTITIONS if the count is not larger, INVALID_REQUEST for duplicate
    topics, and INVALID_REPLICA_ASSIGNMENT for a wrong number of assignments or assignments to
    unknown nodes.
    """
    names = Counter(item.name for item in context.request.topics)
    return context.handle_each_item(partial(_add_partitions, context, names))


def _add_partitions(context: RequestContext, names: Counter[str], item: Any) -> ErrorCode:
    topics = context.cluster.topics
    if names[item.name] > 1:
        raise ResponseError(ErrorCode.invalid_request, "Duplicate topic name.")
    topic = topics.named(item.name)
    if topic is None:
        return ErrorCode.unknown_topic_or_partition
    _check_count(topic, item)
    replicas = [list(assignment.broker_ids) for assignment in item.assignments or ()]
    for assigned in replicas:
        topics.check_replicas(topic, assigned)
    if not context.request.validate_only:
        assignments = dict(enumerate(replicas, len(topic.partitions)))
        topics.add_partitions(topic, item.count, assignments)
    return ErrorCode.none


def _check_count(topic: Topic, item: Any) -> None:
    present = len(topic.partitions)
    if item.count == present:
        raise ResponseError(
            ErrorCode.invalid_partitions, f"Topic already has {present} partition(s)."
        )
    if item.count < present:
        raise ResponseError(
            ErrorCode.invalid_partitions,
            f"Topic '{item.name}' already has {present} partition(s), more than {item.count}.",
        )
    if item.assignments is not None and len(item.assignments) != item.count - present:
        raise ResponseError(
            ErrorCode.invalid_replica_assignment,
            f"{len(item.assignments)} assignment(s) for {item.count - present} new partition(s).",
        )


def delete_topic(context: RequestContext, item: Any) -> FieldValues:
    """Delete a topic by name or, since version 6, by id (DeleteTopics 1-6)."""
    topic = context.find_topic(item)
    if topic is None:
        raise ResponseError(unknown_topic(item), "This server does not host this topic.")
    context.cluster.topics.delete(topic)
    return {"name": topic.name, "topic_id": topic.id}


def delete_records(context: RequestContext, item: Any, requested: Any) -> FieldValues | ErrorCode:
    """Advance the log start offset of a partition; -1 means the high watermark (DeleteRecords 0-2).

    The errors are OFFSET_OUT_OF_RANGE for an offset above the high watermark, and POLICY_VIOLATION
    if the topic's cleanup policy is only "compact". Disk space is freed in whole segments.
    """
    partition = context.led_partition(item.name, requested.partition_index)
    if not partition.config.deletes_records:
        return ErrorCode.policy_violation
    end = partition.high_watermark
    offset = end if requested.offset == _HIGH_WATERMARK else requested.offset
    if not 0 <= offset <= end:
        return ErrorCode.offset_out_of_range
    if offset > partition.log.start_offset:
        context.cluster.topics.store.delete_records(partition, offset)
    return {"low_watermark": partition.log.start_offset}


def alter_partition_reassignments(context: RequestContext) -> HandlerResult:
    """Move partitions to different replicas, or cancel reassignments (if the replicas are null).

    AlterPartitionReassignments 0-1 (KIP-455): the response is sent when the reassignment has
    started, not when it is complete. Since version 1, a request can disallow changes of the
    replication factor.
    """
    return {
        "allow_replication_factor_change": context.get("allow_replication_factor_change", True),
        **context.handle_each_partition(partial(_reassign_partition, context)),
    }


def _reassign_partition(context: RequestContext, item: Any, requested: Any) -> ErrorCode:
    topic = context.cluster.topics.named(item.name)
    partition = topic.partition(requested.partition_index) if topic else None
    if topic is None or partition is None:
        raise ResponseError(
            ErrorCode.unknown_topic_or_partition,
            f"The partition {item.name}-{requested.partition_index} does not exist.",
        )
    if requested.replicas is None:
        context.cluster.elections.cancel_reassignment(topic, partition)
        return ErrorCode.none
    before = len(partition.replicas) - len(partition.adding)
    changes = len(requested.replicas) != before
    if changes and not context.get("allow_replication_factor_change", True):
        raise ResponseError(
            ErrorCode.invalid_replication_factor,
            f"The replication factor would change from {before} to {len(requested.replicas)}.",
        )
    context.cluster.elections.reassign(topic, partition, list(requested.replicas))
    return ErrorCode.none


def list_partition_reassignments(context: RequestContext) -> HandlerResult:
    """Return the ongoing reassignments (ListPartitionReassignments 0, KIP-455)."""
    topics = context.request.topics
    requested = None
    if topics is not None:
        requested = {(item.name, index) for item in topics for index in item.partition_indexes}
    by_topic: dict[str, list[FieldValues]] = {}
    for partition in context.cluster.elections.reassigned():
        if requested is None or partition.topic_partition in requested:
            by_topic.setdefault(partition.topic, []).append(
                {
                    "partition_index": partition.index,
                    "replicas": partition.replicas,
                    "adding_replicas": partition.adding,
                    "removing_replicas": partition.removing,
                }
            )
    return {"topics": [{"name": name, "partitions": indexes} for name, indexes in by_topic.items()]}


def elect_leaders(context: RequestContext) -> HandlerResult:
    """Elect preferred leaders or, since version 1, run unclean elections (KIP-460).

    ElectLeaders 0-2: if the request lists no partitions, it applies to all partitions, and the
    response omits partitions that do not require an election.
    """
    known = context.get("election_type", _PREFERRED) in {_PREFERRED, _UNCLEAN}
    if context.request.topic_partitions is not None:
        values = context.handle_each_partition(partial(_elect_leader, context))
        known = known or not context.request.topic_partitions
    else:
        topics = context.cluster.topics.all()
        results = [
            {"topic": topic.name, "partition_result": _elect_all(context, topic)}
            for topic in topics
        ]
        values = {"replica_election_results": results}
        known = known or not topics
    return {"error_code": ErrorCode.none if known else ErrorCode.invalid_request, **values}


def _elect_all(context: RequestContext, topic: Topic) -> list[FieldValues]:
    """Elect the leaders of a topic. The result omits partitions without an election."""
    results = [
        {"partition_id": partition.index, **_elect_leader(context, topic, partition.index)}
        for partition in topic.partitions
    ]
    return [
        result for result in results if result["error_code"] is not ErrorCode.election_not_needed
    ]


def _elect_leader(context: RequestContext, item: Any, index: int) -> FieldValues:
    kind = context.get("election_type", _PREFERRED)
    partition = context.cluster.topics.partition(name_of(item), index)
    if kind not in {_PREFERRED, _UNCLEAN}:
        error = ErrorCode.invalid_request
    elif partition is None:
        error = ErrorCode.unknown_topic_or_partition
    else:
        error = context.cluster.elections.elect(partition, unclean=kind == _UNCLEAN)
    return {"error_code": error, "error_message": _ELECTION_MESSAGES.get(error)}
