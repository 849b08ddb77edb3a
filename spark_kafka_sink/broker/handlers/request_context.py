"""The context of one request in a handler, and lookups that handlers share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.purgatory import DelayedOperation
from spark_kafka_sink.protocol.messages import Values

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from uuid import UUID

    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.partition.partition import Partition, Topic
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.protocol.versions import ApiKey, VersionRange


class Outcome(Enum):
    """What a handler may return instead of a response's fields."""

    LATER = "the answer follows through RequestContext.reply"
    SILENT = "there is no answer"
    CLOSE = "there is no answer, and the connection ends"


REASON: Final = "reason"
"""A key of an answer's values for the broker's log alone: no response has such a field."""

Answer: TypeAlias = Values | Outcome
"""A handler's result; field names as in the newest version of the response."""


class RequestContext(NamedTuple):
    """A request with all that its handler may use.

    Args:
        cluster: the state.
        node: id of the node that was asked.
        version: the request's version.
        request: kio's request of that version.
        client_id: the client's name for itself, "" if it has none.
        client_host: the client's address.
        user: who the client is, ANONYMOUS where it is not asked.
        reply: gives the answer of a handler that returned LATER.
        is_closed: whether the client has gone meanwhile.
    """

    cluster: Cluster
    node: int
    version: int
    request: Any
    client_id: str
    client_host: str
    user: str
    reply: Callable[[Values], None]
    is_closed: Callable[[], bool]

    def get(self, field: str, default: Any) -> Any:
        """A field that not all versions of the request have."""
        return getattr(self.request, field, default)

    def wait(
        self,
        time: timedelta,
        try_complete: Callable[[], bool],
        answer: Callable[[], Values],
        keys: tuple[TopicPartition, ...] = (),
    ) -> Outcome:
        """Answer when `try_complete` says so, at the latest after `time`.

        Only a change of one of `keys`, if there are any, may complete it.
        """
        deadline = self.cluster.clock.monotonic() + time.total_seconds()
        self.cluster.purgatory.add(
            DelayedOperation(
                deadline=deadline,
                try_complete=try_complete,
                on_complete=lambda: self.reply(answer()),
                is_abandoned=self.is_closed,
                keys=keys,
            )
        )
        return Outcome.LATER


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """How one API is served; `announced` is what ApiVersions says where that differs."""

    api: ApiKey
    versions: VersionRange
    handle: Callable[[RequestContext], Answer]
    announced: VersionRange | None = None


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
