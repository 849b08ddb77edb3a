"""All APIs that the broker serves and their versions; register new handlers in `_SERVED`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.handlers import (
    alter_configs,
    api_versions,
    consumer_groups,
    describe_configs,
    describe_log_dirs,
    describe_transactions,
    fetch,
    group_offsets,
    list_offsets,
    metadata,
    produce,
    reassignments,
    sasl,
    topics,
    transactions,
)
from spark_kafka_sink.broker.releases import releases
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.broker.handlers.request_context import Handler
    from spark_kafka_sink.protocol.versions import VersionRange

_SERVED = [
    produce.PRODUCE,
    fetch.FETCH,
    list_offsets.LIST_OFFSETS,
    metadata.METADATA,
    group_offsets.OFFSET_COMMIT,
    group_offsets.OFFSET_FETCH,
    metadata.FIND_COORDINATOR,
    consumer_groups.JOIN_GROUP,
    consumer_groups.HEARTBEAT,
    consumer_groups.LEAVE_GROUP,
    consumer_groups.SYNC_GROUP,
    consumer_groups.DESCRIBE_GROUPS,
    consumer_groups.LIST_GROUPS,
    sasl.SASL_HANDSHAKE,
    sasl.SASL_AUTHENTICATE,
    topics.CREATE_TOPICS,
    topics.DELETE_TOPICS,
    transactions.INIT_PRODUCER_ID,
    transactions.ADD_PARTITIONS_TO_TXN,
    transactions.ADD_OFFSETS_TO_TXN,
    transactions.END_TXN,
    transactions.WRITE_TXN_MARKERS,
    transactions.TXN_OFFSET_COMMIT,
    describe_transactions.DESCRIBE_PRODUCERS,
    describe_transactions.DESCRIBE_TRANSACTIONS,
    describe_transactions.LIST_TRANSACTIONS,
    describe_configs.DESCRIBE_CONFIGS,
    consumer_groups.DELETE_GROUPS,
    metadata.DESCRIBE_CLUSTER,
    topics.CREATE_PARTITIONS,
    topics.DELETE_RECORDS,
    describe_log_dirs.DESCRIBE_LOG_DIRS,
    metadata.DESCRIBE_TOPIC_PARTITIONS,
    alter_configs.INCREMENTAL_ALTER_CONFIGS,
    list_offsets.OFFSET_FOR_LEADER_EPOCH,
    reassignments.ALTER_PARTITION_REASSIGNMENTS,
    reassignments.ELECT_LEADERS,
    reassignments.LIST_PARTITION_REASSIGNMENTS,
    group_offsets.OFFSET_DELETE,
    consumer_groups.CONSUMER_GROUP_HEARTBEAT,
    alter_configs.ALTER_CONFIGS,
    describe_configs.LIST_CONFIG_RESOURCES,
]

HANDLERS: dict[int, Handler] = {
    int(handler.api): handler for handler in (*_SERVED, api_versions.make(_SERVED))
}
"""All handlers, by API key."""


def handlers_of(release: str | None) -> Mapping[int, Handler]:
    """Return the handlers of a broker that imitates a release of Kafka, or all for None."""
    if release is None:
        return HANDLERS
    spans = releases()[release]
    limited = [_limited(handler, spans.get(handler.api)) for handler in _SERVED]
    served = [handler for handler in limited if handler is not None]
    announcing = api_versions.make(served, spans[ApiKey.API_VERSIONS])
    return {int(handler.api): handler for handler in (*served, announcing)}


def _limited(handler: Handler, span: VersionRange | None) -> Handler | None:
    versions = None if span is None else handler.versions.common(span)
    if span is None or versions is None:
        return None
    announced = None if handler.announced is None else handler.announced.common(span)
    return replace(handler, versions=versions, announced=announced)
