"""Finding what a request names, shared by the handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

if TYPE_CHECKING:
    from uuid import UUID

    from spark_kafka_sink.broker.handlers.request_context import RequestContext
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.protocol.message_builder import Values


def topic_of(context: RequestContext, item: Any) -> Topic | None:
    """The topic that an item of a request names or, in newer versions, has the id of."""
    if hasattr(item, "topic_id"):
        found = context.cluster.topics.with_id(item.topic_id)
        if found is not None:
            return found
    return context.cluster.topics.named(name_of(item))


def name_of(item: Any) -> str | None:
    """The topic's name in an item; Fetch calls it `topic`."""
    name: str | None = getattr(item, "name", getattr(item, "topic", None))
    return name


def id_of(item: Any) -> UUID | None:
    """The topic's id in an item, None in versions that name it."""
    found: UUID | None = getattr(item, "topic_id", None)
    return found


def missing(item: Any) -> ErrorCode:
    """The error for a topic that is not there."""
    by_id = id_of(item) is not None
    return ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition


def check_transaction_coordinator(context: RequestContext, transactional_id: str) -> ErrorCode:
    """Check whether the node that was asked coordinates a transactional id."""
    here = not transactional_id or context.cluster.coordinator(transactional_id).id == context.node
    return ErrorCode.none if here else ErrorCode.not_coordinator


def reads_committed(context: RequestContext) -> bool:
    """Whether a reader wants decided transactions only; versions that can't say so do not."""
    return int(context.get("isolation_level", 0)) == 1


def visible_end(partition: Partition, *, committed: bool) -> int:
    """Where a reader's view of a partition ends."""
    return partition.last_stable_offset if committed else partition.high_watermark


def current_leader(partition: Partition) -> Values:
    """Where to go instead (KIP-951)."""
    return {"leader_id": partition.leader, "leader_epoch": partition.leader_epoch}


def endpoints(context: RequestContext, node_ids: set[int]) -> list[Values]:
    """Addresses of nodes that an answer sends clients to (KIP-951)."""
    if not node_ids:
        return []
    living = context.cluster.nodes
    nodes = (living[node_id] for node_id in sorted(node_ids) if node_id in living)
    return [{"node_id": node.id, "host": node.host, "port": node.port} for node in nodes]
