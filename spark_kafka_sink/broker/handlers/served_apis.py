"""The APIs that the broker supports, optionally limited to the versions of a Kafka release.

Register new handlers in `_SERVED`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.config.kafka_releases import releases
from spark_kafka_sink.broker.handlers import (
    api_versions,
    cluster,
    config_changes,
    configs,
    consumer_groups,
    fetch,
    group_offsets,
    metadata,
    produce,
    topics,
    transactions,
)
from spark_kafka_sink.broker.handlers.request_context import ServedApi
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_kafka_sink.broker.handlers.request_context import HandlerResult, RequestContext
    from spark_kafka_sink.broker.requests.shapes import ItemResult

_API_VERSIONS = VersionRange(0, 4)


def _serve(
    api: ApiKey, lowest: int, highest: int, handle: Callable[[RequestContext], HandlerResult]
) -> ServedApi:
    return ServedApi(api, VersionRange(lowest, highest), handle)


def _serve_each_item(
    api: ApiKey, lowest: int, highest: int, handle: Callable[..., ItemResult]
) -> ServedApi:
    return _serve(api, lowest, highest, lambda ctx: ctx.handle_each_item(partial(handle, ctx)))


def _serve_each_partition(
    api: ApiKey, lowest: int, highest: int, handle: Callable[..., ItemResult]
) -> ServedApi:
    return _serve(api, lowest, highest, lambda ctx: ctx.handle_each_partition(partial(handle, ctx)))


_SERVED = [
    ServedApi(ApiKey.PRODUCE, VersionRange(3, 13), produce.produce, announced=VersionRange(0, 13)),
    _serve(ApiKey.FETCH, 4, 17, fetch.fetch_records),
    _serve_each_partition(ApiKey.LIST_OFFSETS, 1, 10, fetch.list_offset),
    _serve(ApiKey.METADATA, 0, 13, metadata.metadata),
    _serve(ApiKey.OFFSET_COMMIT, 2, 10, group_offsets.offset_commit),
    _serve(ApiKey.OFFSET_FETCH, 1, 10, group_offsets.offset_fetch),
    _serve(ApiKey.FIND_COORDINATOR, 0, 6, cluster.find_coordinator),
    _serve(ApiKey.JOIN_GROUP, 0, 9, consumer_groups.join_group),
    _serve(ApiKey.HEARTBEAT, 0, 4, consumer_groups.heartbeat),
    _serve(ApiKey.LEAVE_GROUP, 0, 5, consumer_groups.leave_group),
    _serve(ApiKey.SYNC_GROUP, 0, 5, consumer_groups.sync_group),
    _serve_each_item(ApiKey.DESCRIBE_GROUPS, 0, 6, consumer_groups.describe_group),
    _serve(ApiKey.LIST_GROUPS, 0, 5, consumer_groups.list_groups),
    _serve(ApiKey.SASL_HANDSHAKE, 0, 1, api_versions.sasl_handshake),
    _serve(ApiKey.CREATE_TOPICS, 2, 7, topics.create_topics),
    _serve_each_item(ApiKey.DELETE_TOPICS, 1, 6, topics.delete_topic),
    _serve_each_partition(ApiKey.DELETE_RECORDS, 0, 2, topics.delete_records),
    _serve(ApiKey.INIT_PRODUCER_ID, 0, 5, transactions.init_producer_id),
    _serve_each_partition(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, fetch.epoch_end),
    _serve(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, transactions.add_partitions_to_txn),
    _serve(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, transactions.add_offsets_to_txn),
    _serve(ApiKey.END_TXN, 0, 5, transactions.end_txn),
    _serve(ApiKey.WRITE_TXN_MARKERS, 1, 2, transactions.write_txn_markers),
    _serve(ApiKey.TXN_OFFSET_COMMIT, 0, 5, transactions.txn_offset_commit),
    _serve_each_item(ApiKey.DESCRIBE_CONFIGS, 1, 4, configs.describe_resource),
    _serve(ApiKey.ALTER_CONFIGS, 0, 2, config_changes.alter_configs),
    _serve(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, cluster.describe_log_dirs),
    _serve(ApiKey.SASL_AUTHENTICATE, 0, 2, api_versions.sasl_authenticate),
    _serve(ApiKey.CREATE_PARTITIONS, 0, 3, topics.create_partitions),
    _serve_each_item(ApiKey.DELETE_GROUPS, 0, 2, consumer_groups.delete_group),
    _serve(ApiKey.ELECT_LEADERS, 0, 2, topics.elect_leaders),
    _serve(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, config_changes.incremental_alter_configs),
    _serve(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, topics.alter_partition_reassignments),
    _serve(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, topics.list_partition_reassignments),
    _serve(ApiKey.OFFSET_DELETE, 0, 0, group_offsets.offset_delete),
    _serve(ApiKey.DESCRIBE_CLUSTER, 0, 2, cluster.describe_cluster),
    _serve_each_partition(ApiKey.DESCRIBE_PRODUCERS, 0, 0, transactions.describe_producers),
    _serve_each_item(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, transactions.describe_transaction),
    _serve(ApiKey.LIST_TRANSACTIONS, 0, 2, transactions.list_transactions),
    _serve(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, consumer_groups.consumer_group_heartbeat),
    _serve(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, configs.list_config_resources),
    _serve(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, metadata.describe_topic_partitions),
]

HANDLERS: dict[int, ServedApi] = {
    int(handler.api): handler
    for handler in (*_SERVED, api_versions.api_versions(_SERVED, _API_VERSIONS))
}
"""All handlers, by API key."""


def handlers_of(release: str | None) -> Mapping[int, ServedApi]:
    """Return the handlers for the API versions of a Kafka release, or all handlers for None."""
    if release is None:
        return HANDLERS
    spans = releases()[release]
    limited = [_limit_versions(handler, spans.get(handler.api)) for handler in _SERVED]
    served = [handler for handler in limited if handler is not None]
    announcing = api_versions.api_versions(served, spans[ApiKey.API_VERSIONS])
    return {int(handler.api): handler for handler in (*served, announcing)}


def _limit_versions(handler: ServedApi, span: VersionRange | None) -> ServedApi | None:
    versions = None if span is None else handler.versions.common(span)
    if span is None or versions is None:
        return None
    announced = None if handler.announced is None else handler.announced.common(span)
    return replace(handler, versions=versions, announced=announced)
