"""DeleteTopics 1-6: by name, since version 6 also by id (KIP-516). The data goes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.cluster.new_topic import TopicError
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.handlers.request_lookups import missing, topic_of
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.protocol.message_builder import Values

NOT_THERE = "This server does not host this topic."


def handle(context: RequestContext) -> Answer:
    """Handle the DeleteTopics API."""
    if context.version >= 6:
        return {"responses": [_delete_state(context, item) for item in context.request.topics]}
    return {"responses": [_delete_name(context, name) for name in context.request.topic_names]}


def _delete_state(context: RequestContext, item: Any) -> Values:
    topic = topic_of(context, item)
    if topic is None:
        gone = {"error_code": missing(item), "error_message": NOT_THERE}
        return {"name": item.name, "topic_id": item.topic_id} | gone
    return {"name": topic.name, "topic_id": topic.id} | _delete(context, topic)


def _delete_name(context: RequestContext, name: str) -> Values:
    topic = context.cluster.topics.named(name)
    if topic is None:
        return {"name": name, "error_code": missing(None), "error_message": NOT_THERE}
    return {"name": name} | _delete(context, topic)


def _delete(context: RequestContext, topic: Topic) -> dict[str, Any]:
    try:
        context.cluster.topics.delete(topic)
    except TopicError as error:
        return {"error_code": error.error, "error_message": error.message}
    return {}


HANDLER = Handler(api=ApiKey.DELETE_TOPICS, versions=VersionRange(1, 6), handle=handle)
