"""CreateTopics 2-7: partition count, replication factor, explicit assignments.

Unknown or invalid configs are refused (topic_config.py). Versions 5 and later tell the configs of
the new topic (KIP-525), version 7 its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.new_topic import NewTopic, TopicError
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.topic_config import TOPIC_KEYS
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.topic import Topic


def handle(context: RequestContext) -> Answer:
    """Handle the CreateTopics API."""
    names = [item.name for item in context.request.topics]
    items = {item.name: item for item in context.request.topics}
    return {"topics": [_create(context, item, names) for item in items.values()]}


def _create(context: RequestContext, item: Any, names: list[str]) -> dict[str, Any]:
    topics = context.cluster.topics
    new = NewTopic(
        name=item.name,
        partitions=item.num_partitions,
        replication_factor=item.replication_factor,
        assignments={a.partition_index: list(a.broker_ids) for a in item.assignments},
        configs={config.name: config.value for config in item.configs},
    )
    if names.count(item.name) > 1:
        return _refused(new, TopicError(ErrorCode.invalid_request, "Duplicate topic name."))
    if len(new.assignments) < len(item.assignments):
        twice = "Found multiple manual partition assignments for one partition."
        return _refused(new, TopicError(ErrorCode.invalid_replica_assignment, twice))
    try:
        topics.check(new)
        return _created(topics.draft(new) if context.request.validate_only else topics.create(new))
    except TopicError as error:
        return _refused(new, error)


def _refused(new: NewTopic, error: TopicError) -> dict[str, Any]:
    return {
        "name": new.name,
        "error_code": error.error,
        "error_message": error.message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


def _created(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "error_code": ErrorCode.none,
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


HANDLER = Handler(api=ApiKey.CREATE_TOPICS, versions=VersionRange(2, 7), handle=handle)
