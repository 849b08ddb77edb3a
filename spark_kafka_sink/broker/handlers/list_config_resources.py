"""ListConfigResources 0-1 (KIP-1142): what DescribeConfigs can be asked about.

Version 0 is of client metrics alone, of which there are none. Groups are those that have configs of
their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.dynamic_configs import GROUP
from spark_kafka_sink.broker.handlers.config_resources import ResourceType
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterable

CLIENT_METRICS = 16
ALL_TYPES_VERSION = 1


def handle(context: RequestContext) -> Answer:
    """Handle the ListConfigResources API."""
    requested = set(context.get("resource_types", ()))
    if requested - {*ResourceType, CLIENT_METRICS}:
        return {"error_code": ErrorCode.unsupported_version}
    if context.version < ALL_TYPES_VERSION:
        requested = {CLIENT_METRICS}
    return {
        "config_resources": [
            {"resource_name": name, "resource_type": int(kind)}
            for kind in reversed(ResourceType)
            if not requested or kind in requested
            for name in _names(context, kind)
        ]
    }


def _names(context: RequestContext, kind: ResourceType) -> Iterable[str]:
    cluster = context.cluster
    if kind is ResourceType.TOPIC:
        return (topic.name for topic in cluster.topics.all())
    if kind is ResourceType.GROUP:
        return cluster.dynamic_configs.names(GROUP)
    return map(str, cluster.nodes)


HANDLER = Handler(api=ApiKey.LIST_CONFIG_RESOURCES, versions=VersionRange(0, 1), handle=handle)
