"""Every API that is served, and from which version to which; add new ones here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from spark_kafka_sink.broker.releases import releases
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.broker.handlers.request_context import Handler
    from spark_kafka_sink.protocol.versions import VersionRange

_MODULES = (
    produce,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    find_coordinator,
    join_group,
    heartbeat,
    leave_group,
    sync_group,
    describe_groups,
    list_groups,
    sasl_handshake,
    sasl_authenticate,
    create_topics,
    delete_topics,
    init_producer_id,
    add_partitions_to_txn,
    add_offsets_to_txn,
    end_txn,
    write_txn_markers,
    txn_offset_commit,
    describe_producers,
    describe_transactions,
    list_transactions,
    describe_configs,
    delete_groups,
    describe_cluster,
    create_partitions,
    delete_records,
    describe_log_dirs,
    describe_topic_partitions,
    incremental_alter_configs,
    offset_for_leader_epoch,
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
    offset_delete,
    consumer_group_heartbeat,
    alter_configs,
    list_config_resources,
)
_SERVED = [module.HANDLER for module in _MODULES]

HANDLERS: dict[int, Handler] = {
    int(handler.api): handler for handler in (*_SERVED, api_versions.make(_SERVED))
}
"""Everything that is served, by API key."""


def handlers_of(release: str | None) -> Mapping[int, Handler]:
    """What a broker serves that answers as a release of Kafka does; None is for all of it."""
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
