"""AlterConfigs 0-2: all configs of a topic, broker or group at once; those left out go.

Older clients have nothing else; IncrementalAlterConfigs replaced it (KIP-339).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.new_topic import TopicError
from spark_kafka_sink.broker.handlers.config_resources import find_resource, invalid_request
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.message_builder import Values


def handle(context: RequestContext) -> Answer:
    """Handle the AlterConfigs API."""
    named = Counter((item.resource_type, item.resource_name) for item in context.request.resources)
    return {"responses": [_resource(context, item, named) for item in context.request.resources]}


def _resource(context: RequestContext, item: Any, named: Counter[tuple[int, str]]) -> Values:
    about = {"resource_type": item.resource_type, "resource_name": item.resource_name}
    try:
        _replace(context, item, named[item.resource_type, item.resource_name])
    except TopicError as error:
        return about | {"error_code": error.error, "error_message": error.message}
    return about | {"error_code": ErrorCode.none, "error_message": None}


def _replace(context: RequestContext, item: Any, times: int) -> None:
    if times > 1:
        raise invalid_request("Each resource must appear at most once.")
    resource = find_resource(context, item.resource_type, item.resource_name)
    own = {config.name: config.value for config in item.configs}
    if len(own) < len(item.configs):
        raise invalid_request("Error due to duplicate config keys")
    for name, value in own.items():
        if value is None:
            raise invalid_request(f"Null value not supported for : {name}")
    resource.check(own)
    if not context.request.validate_only:
        resource.apply(own)


HANDLER = Handler(api=ApiKey.ALTER_CONFIGS, versions=VersionRange(0, 2), handle=handle)
