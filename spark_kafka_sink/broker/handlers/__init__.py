"""One file per API; each says which versions and behaviours it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.handlers import (
    api_versions,
    create_topics,
    delete_groups,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    sync_group,
)

if TYPE_CHECKING:
    from spark_kafka_sink.broker.call import Handler

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
    create_topics,
    delete_topics,
    init_producer_id,
    describe_configs,
    delete_groups,
    describe_cluster,
)
_SERVED = [module.HANDLER for module in _MODULES]

HANDLERS: dict[int, Handler] = {
    int(handler.api): handler for handler in (*_SERVED, api_versions.make(_SERVED))
}
