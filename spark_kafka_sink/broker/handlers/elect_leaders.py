"""ElectLeaders 0-2: preferred leaders lead again; since version 1 also unclean elections (KIP-460).

Of all partitions where none are named; those that need no election are not told of then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.protocol.message_builder import Values

PREFERRED, UNCLEAN = 0, 1
_TEXTS = {
    ErrorCode.invalid_request: "There is no such type of election.",
    ErrorCode.unknown_topic_or_partition: "No such topic or partition",
    ErrorCode.election_not_needed: "Leader election not needed for topic partition.",
    ErrorCode.preferred_leader_not_available: "The preferred leader was not available.",
    ErrorCode.eligible_leaders_not_available: "Eligible topic partition leaders are not available.",
}


def handle(context: RequestContext) -> Answer:
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


HANDLER = Handler(api=ApiKey.ELECT_LEADERS, versions=VersionRange(0, 2), handle=handle)
