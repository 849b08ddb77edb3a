"""One file per API; each says which versions and behaviours it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    create_topics,
    delete_groups,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    sync_group,
    txn_offset_commit,
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
    add_partitions_to_txn,
    add_offsets_to_txn,
    end_txn,
    txn_offset_commit,
    describe_producers,
    describe_transactions,
    list_transactions,
    describe_configs,
    delete_groups,
    describe_cluster,
)
_SERVED = [module.HANDLER for module in _MODULES]

HANDLERS: dict[int, Handler] = {
    int(handler.api): handler for handler in (*_SERVED, api_versions.make(_SERVED))
}
