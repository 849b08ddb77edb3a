"""One file per API; each says which versions and behaviours it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
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
    sync_group,
    txn_offset_commit,
    write_txn_markers,
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
)
_SERVED = [module.HANDLER for module in _MODULES]

HANDLERS: dict[int, Handler] = {
    int(handler.api): handler for handler in (*_SERVED, api_versions.make(_SERVED))
}
