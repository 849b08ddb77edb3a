"""Partition reassignments (KIP-455) and leader elections (KIP-460).

AlterPartitionReassignments 0-1: move partitions to different replicas, or cancel reassignments (if
the replicas are null). The response is sent when the reassignment has started, not when it is
complete. Since version 1, a request can disallow changes of the replication factor.

ListPartitionReassignments 0: the ongoing reassignments.

ElectLeaders 0-2: elect preferred leaders and, since version 1, run unclean elections (KIP-460). If
the request lists no partitions, it applies to all partitions, and the response omits partitions
that do not require an election.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.topics import TopicError
from spark_kafka_sink.broker.request_shapes import name_of
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from spark_kafka_sink.broker.handlers.request_context import Answer, RequestContext
    from spark_kafka_sink.broker.partition.partition import Topic
    from spark_kafka_sink.protocol.messages import Values


def alter_partition_reassignments(context: RequestContext) -> Answer:
    """Handle the AlterPartitionReassignments API."""

    def reassign(item: Any, requested: Any) -> Values:
        try:
            _reassign(context, item.name, requested)
        except TopicError as error:
            return {"error_code": error.error, "error_message": error.message or None}
        return {}

    return {
        "allow_replication_factor_change": context.get("allow_replication_factor_change", True),
        **context.by_partition(ApiKey.ALTER_PARTITION_REASSIGNMENTS, reassign),
    }


def _reassign(context: RequestContext, name: str, requested: Any) -> None:
    topic = context.cluster.topics.named(name)
    partition = topic.partition(requested.partition_index) if topic else None
    if topic is None or partition is None:
        raise TopicError(
            ErrorCode.unknown_topic_or_partition,
            f"The partition {name}-{requested.partition_index} does not exist.",
        )
    if requested.replicas is None:
        context.cluster.reassignments.cancel(topic, partition)
        return
    before = len(partition.replicas) - len(partition.adding)
    changes = len(requested.replicas) != before
    if changes and not context.get("allow_replication_factor_change", True):
        raise TopicError(
            ErrorCode.invalid_replication_factor,
            f"The replication factor would change from {before} to {len(requested.replicas)}.",
        )
    context.cluster.reassignments.begin(topic, partition, list(requested.replicas))


def list_partition_reassignments(context: RequestContext) -> Answer:
    """Handle the ListPartitionReassignments API."""
    topics = context.request.topics
    requested = None
    if topics is not None:
        requested = {(item.name, index) for item in topics for index in item.partition_indexes}
    by_topic: dict[str, list[Values]] = {}
    for partition in context.cluster.reassignments.ongoing():
        if requested is None or (partition.topic, partition.index) in requested:
            by_topic.setdefault(partition.topic, []).append(
                {
                    "partition_index": partition.index,
                    "replicas": partition.replicas,
                    "adding_replicas": partition.adding,
                    "removing_replicas": partition.removing,
                }
            )
    return {"topics": [{"name": name, "partitions": some} for name, some in by_topic.items()]}


PREFERRED, UNCLEAN = 0, 1
_TEXTS = {
    ErrorCode.invalid_request: "Unknown election type.",
    ErrorCode.unknown_topic_or_partition: "No such topic or partition",
    ErrorCode.election_not_needed: "Leader election not needed for topic partition.",
    ErrorCode.preferred_leader_not_available: "The preferred leader was not available.",
    ErrorCode.eligible_leaders_not_available: "Eligible topic partition leaders are not available.",
}


def elect_leaders(context: RequestContext) -> Answer:
    """Handle the ElectLeaders API."""
    known = context.get("election_type", PREFERRED) in {PREFERRED, UNCLEAN}
    if context.request.topic_partitions is not None:
        values = context.by_partition(ApiKey.ELECT_LEADERS, partial(_elect, context))
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


def _elect_all(context: RequestContext, topic: Topic) -> list[Values]:
    """Elect the leaders of a topic. The result omits partitions without an election."""
    results = [
        {"partition_id": one.index, **_elect(context, topic, one.index)} for one in topic.partitions
    ]
    return [one for one in results if one["error_code"] is not ErrorCode.election_not_needed]


def _elect(context: RequestContext, item: Any, index: int) -> Values:
    kind = context.get("election_type", PREFERRED)
    partition = context.cluster.topics.partition(name_of(item), index)
    if kind not in {PREFERRED, UNCLEAN}:
        error = ErrorCode.invalid_request
    elif partition is None:
        error = ErrorCode.unknown_topic_or_partition
    else:
        error = context.cluster.elections.elect(partition, unclean=kind == UNCLEAN)
    return {"error_code": error, "error_message": _TEXTS.get(error)}
