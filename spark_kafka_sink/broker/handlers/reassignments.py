"""Partition reassignments (KIP-455) and leader elections (KIP-460).

AlterPartitionReassignments 0-1: assign other replicas to partitions; null cancels an ongoing
reassignment. The response is sent as soon as the reassignment has begun. Version 1 can forbid a
change of the replication factor.

ListPartitionReassignments 0: the ongoing reassignments.

ElectLeaders 0-2: elect preferred leaders and, since version 1, hold unclean elections (KIP-460). If
the request names no partitions, it applies to all of them, and the response leaves out partitions
that need no election.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.topics import TopicError
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.partition import Topic
    from spark_kafka_sink.protocol.messages import Values


def alter_partition_reassignments(context: RequestContext) -> Answer:
    """Handle the AlterPartitionReassignments API."""
    return {
        "allow_replication_factor_change": context.get("allow_replication_factor_change", True),
        "responses": [
            {
                "name": item.name,
                "partitions": [_one(context, item.name, p) for p in item.partitions],
            }
            for item in context.request.topics
        ],
    }


def _one(context: RequestContext, name: str, asked: Any) -> Values:
    about = {"partition_index": asked.partition_index}
    try:
        _reassign(context, name, asked)
    except TopicError as error:
        return about | {"error_code": error.error, "error_message": error.message or None}
    return about | {"error_code": ErrorCode.none, "error_message": None}


def _reassign(context: RequestContext, name: str, asked: Any) -> None:
    topic = context.cluster.topics.named(name)
    partition = topic.partition(asked.partition_index) if topic else None
    if topic is None or partition is None:
        raise TopicError(
            ErrorCode.unknown_topic_or_partition, f"There is no {name}-{asked.partition_index}."
        )
    if asked.replicas is None:
        context.cluster.reassignments.cancel(topic, partition)
        return
    before = len(partition.replicas) - len(partition.adding)
    changes = len(asked.replicas) != before
    if changes and not context.get("allow_replication_factor_change", True):
        raise TopicError(
            ErrorCode.invalid_replication_factor,
            f"The number of replicas would be {len(asked.replicas)}, not {before}.",
        )
    context.cluster.reassignments.begin(topic, partition, list(asked.replicas))


ALTER_PARTITION_REASSIGNMENTS = Handler(
    api=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    versions=VersionRange(0, 1),
    handle=alter_partition_reassignments,
)


def list_partition_reassignments(context: RequestContext) -> Answer:
    """Handle the ListPartitionReassignments API."""
    asked = context.request.topics
    requested = None
    if asked is not None:
        requested = {(item.name, index) for item in asked for index in item.partition_indexes}
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


LIST_PARTITION_REASSIGNMENTS = Handler(
    api=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    versions=VersionRange(0, 0),
    handle=list_partition_reassignments,
)


PREFERRED, UNCLEAN = 0, 1
_TEXTS = {
    ErrorCode.invalid_request: "There is no such type of election.",
    ErrorCode.unknown_topic_or_partition: "No such topic or partition",
    ErrorCode.election_not_needed: "Leader election not needed for topic partition.",
    ErrorCode.preferred_leader_not_available: "The preferred leader was not available.",
    ErrorCode.eligible_leaders_not_available: "Eligible topic partition leaders are not available.",
}


def elect_leaders(context: RequestContext) -> Answer:
    """Handle the ElectLeaders API."""
    asked = context.request.topic_partitions
    if asked is not None:
        named = [
            (one.topic, [_elect(context, one.topic, i) for i in one.partitions]) for one in asked
        ]
    else:
        named = [
            (topic.name, _elect_needed(context, topic)) for topic in context.cluster.topics.all()
        ]
    known = not named or context.get("election_type", PREFERRED) in {PREFERRED, UNCLEAN}
    return {
        "error_code": ErrorCode.none if known else ErrorCode.invalid_request,
        "replica_election_results": [
            {"topic": name, "partition_result": results} for name, results in named
        ],
    }


def _elect_needed(context: RequestContext, topic: Topic) -> list[Values]:
    results = [_elect(context, topic.name, one.index) for one in topic.partitions]
    return [one for one in results if one["error_code"] is not ErrorCode.election_not_needed]


def _elect(context: RequestContext, name: str, index: int) -> Values:
    kind = context.get("election_type", PREFERRED)
    topic = context.cluster.topics.named(name)
    partition = topic.partition(index) if topic else None
    if kind not in {PREFERRED, UNCLEAN}:
        error = ErrorCode.invalid_request
    elif partition is None:
        error = ErrorCode.unknown_topic_or_partition
    else:
        error = context.cluster.elections.elect(partition, unclean=kind == UNCLEAN)
    return {"partition_id": index, "error_code": error, "error_message": _TEXTS.get(error)}


ELECT_LEADERS = Handler(api=ApiKey.ELECT_LEADERS, versions=VersionRange(0, 2), handle=elect_leaders)
