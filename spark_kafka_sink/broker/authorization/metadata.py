"""Metadata for those who may not describe every topic: what is hidden, and what is refused.

A topic that is named and may not be described is refused whether there is one or not, so that
nobody learns which topics there are. Where all are asked for, it is left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Outcome
from spark_kafka_sink.broker.handlers.request_lookups import id_of
from spark_kafka_sink.broker.security.acl import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
    from spark_kafka_sink.protocol.message_builder import Values

_NULL_NAME_VERSION: Final = 12


def answer_metadata(handler: Handler, context: RequestContext) -> Answer:
    """Handle Metadata as far as its client may see."""
    asked = context.request.topics
    if asked is None or (context.version == 0 and not asked):
        answer = handler.handle(context)
        return answer if isinstance(answer, Outcome) else _visible(context, answer)
    refused = [_refused(context, item) for item in asked if not _may_have(context, item)]
    allowed = tuple(item for item in asked if _may_have(context, item))
    answer = handler.handle(context._replace(request=replace(context.request, topics=allowed)))
    if isinstance(answer, Outcome):
        return answer
    found = answer["topics"] if allowed else []
    return {**answer, "topics": [*found, *refused]}


def _visible(context: RequestContext, answer: Values) -> Values:
    topics = [one for one in answer["topics"] if _describes(context, one["name"])]
    return {**answer, "topics": topics}


def _may_have(context: RequestContext, item: Any) -> bool:
    topics = context.cluster.topics
    by_id = id_of(item)
    topic = topics.with_id(by_id) if by_id is not None else topics.named(item.name)
    if topic is not None:
        return _describes(context, topic.name)
    if by_id is not None:
        return True
    return _describes(context, item.name) and _may_be_made(context, item.name)


def _describes(context: RequestContext, topic: str) -> bool:
    return context.cluster.denials.allows(
        context.user, Operation.DESCRIBE, ResourceType.TOPIC, topic
    )


def _may_be_made(context: RequestContext, topic: str) -> bool:
    """Whether asking for an unknown topic may make it, where it would."""
    config, denials, user = context.cluster.config, context.cluster.denials, context.user
    if not (config.auto_create_topics and context.get("allow_auto_topic_creation", True)):
        return True
    create = Operation.CREATE
    on_cluster = denials.allows(user, create, ResourceType.CLUSTER, CLUSTER_NAME)
    return on_cluster and denials.allows(user, create, ResourceType.TOPIC, topic)


def _refused(context: RequestContext, item: Any) -> Values:
    """By name without the id, by id without the name (as KafkaApis)."""
    by_id = id_of(item)
    name = item.name
    if by_id is not None:
        name = None if context.version >= _NULL_NAME_VERSION else ""
    return {
        "error_code": ErrorCode.topic_authorization_failed,
        "name": name,
        "topic_id": by_id,
        "partitions": [],
        "topic_authorized_operations": -(2**31),
    }
