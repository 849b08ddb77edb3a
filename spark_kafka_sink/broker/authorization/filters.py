"""Answers about everything, without what their client may not describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.security.acl import Operation, ResourceType
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_kafka_sink.broker.handlers.request_context import RequestContext
    from spark_kafka_sink.protocol.message_builder import Values

_Filter: TypeAlias = "Callable[[RequestContext, Values], Values]"


def _without(
    answers: str, name: str, type_: ResourceType, operation: Operation = Operation.DESCRIBE
) -> _Filter:
    """Leaves out the parts of an answer whose names may not be known."""

    def hide(context: RequestContext, values: Values) -> Values:
        if answers not in values:
            return values
        allows, user = context.cluster.denials.allows, context.user
        kept = [one for one in values[answers] if allows(user, operation, type_, one[name])]
        return {**values, answers: kept}

    return hide


def _hide_offsets(context: RequestContext, values: Values) -> Values:
    """Committed offsets of topics that may not be described: refused if asked for, or left out."""
    if "groups" not in values:
        asked = context.request.topics
        return values if asked is not None else _offsets_of_group(context, values, all_topics=True)
    asked_for_all = {group.group_id: group.topics is None for group in context.request.groups}
    groups = [
        _offsets_of_group(context, group, all_topics=asked_for_all[group["group_id"]])
        for group in values["groups"]
    ]
    return {**values, "groups": groups}


def _offsets_of_group(context: RequestContext, group: Values, *, all_topics: bool) -> Values:
    topics = []
    for topic in group.get("topics", ()):
        name = topic["name"]
        if name is None or _describes(context, name):
            topics.append(topic)
        elif not all_topics:
            topics.append({**topic, "partitions": list(map(_refused, topic["partitions"]))})
    return {**group, "topics": topics}


def _describes(context: RequestContext, topic: str) -> bool:
    return context.cluster.denials.allows(
        context.user, Operation.DESCRIBE, ResourceType.TOPIC, topic
    )


def _refused(partition: Values) -> Values:
    return {
        "error_code": ErrorCode.topic_authorization_failed,
        "partition_index": partition["partition_index"],
        "committed_offset": -1,
        "committed_leader_epoch": -1,
        "metadata": "",
    }


ANSWER_FILTERS: Final[Mapping[int, _Filter]] = {
    ApiKey.LIST_GROUPS: _without("groups", "group_id", ResourceType.GROUP),
    ApiKey.LIST_TRANSACTIONS: _without(
        "transaction_states", "transactional_id", ResourceType.TRANSACTIONAL_ID
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _without("topics", "name", ResourceType.TOPIC),
    ApiKey.OFFSET_FETCH: _hide_offsets,
}
"""By API: what is done to an answer of its handler."""
