"""The context that a handler receives, its possible results, and lookups that handlers share."""

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
    """Results of a handler other than the fields of a response."""

    LATER = "the answer follows through RequestContext.reply"
    SILENT = "there is no answer"
    CLOSE = "there is no answer, and the connection ends"


REASON: Final = "reason"
"""A key of a response's values for the broker's log only; it is not a field of any response."""

Answer: TypeAlias = Values | Outcome
"""The result of a handler; field names as in the newest version of the response."""


class RequestContext(NamedTuple):
    """A request and everything that its handler may use.

    Args:
        cluster: the state of the cluster.
        node: id of the node that received the request.
        version: the request's version.
        request: kio's request of that version.
        client_id: the client id, "" if the client has none.
        client_host: the client's address.
        user: the authenticated user, ANONYMOUS without authentication.
        reply: sends the response of a handler that returned LATER.
        is_closed: returns True if the client has disconnected.
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
        """Return a field of the request, or `default` if its version does not have the field."""
        return getattr(self.request, field, default)

    def wait(
        self,
        time: timedelta,
        try_complete: Callable[[], bool],
        answer: Callable[[], Values],
        keys: tuple[TopicPartition, ...] = (),
    ) -> Outcome:
        """Answer once `try_complete` returns True, at the latest after `time`.

        Only changes of the topic-partitions in `keys` are checked; without keys, all changes are.
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
    """The versions of an API, and the function that handles its requests.

    `announced` are the versions in ApiVersions, if they differ from `versions`.
    """

    api: ApiKey
    versions: VersionRange
    handle: Callable[[RequestContext], Answer]
    announced: VersionRange | None = None


def topic_of(context: RequestContext, item: Any) -> Topic | None:
    """Return the topic that an item of a request names or, in newer versions, identifies by id."""
    if hasattr(item, "topic_id"):
        found = context.cluster.topics.with_id(item.topic_id)
        if found is not None:
            return found
    return context.cluster.topics.named(name_of(item))


def name_of(item: Any) -> str | None:
    """Return the topic name in an item; Fetch calls the field `topic`."""
    name: str | None = getattr(item, "name", getattr(item, "topic", None))
    return name


def id_of(item: Any) -> UUID | None:
    """Return the topic id in an item, or None in versions that use the name."""
    found: UUID | None = getattr(item, "topic_id", None)
    return found


def missing(item: Any) -> ErrorCode:
    """Return the error for an item whose topic does not exist."""
    by_id = id_of(item) is not None
    return ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition


def check_transaction_coordinator(context: RequestContext, transactional_id: str) -> ErrorCode:
    """Return an error unless the node that received the request coordinates a transactional id."""
    here = not transactional_id or context.cluster.coordinator(transactional_id).id == context.node
    return ErrorCode.none if here else ErrorCode.not_coordinator


def reads_committed(context: RequestContext) -> bool:
    """Return True if the request is read_committed; versions without an isolation level are not."""
    return int(context.get("isolation_level", 0)) == 1


def visible_end(partition: Partition, *, committed: bool) -> int:
    """Return the offset up to which a consumer may read a partition."""
    return partition.last_stable_offset if committed else partition.high_watermark


def current_leader(partition: Partition) -> Values:
    """Return the fields that tell a client the current leader (KIP-951)."""
    return {"leader_id": partition.leader, "leader_epoch": partition.leader_epoch}


def endpoints(context: RequestContext, node_ids: set[int]) -> list[Values]:
    """Return the addresses of nodes that a response refers clients to (KIP-951)."""
    if not node_ids:
        return []
    living = context.cluster.nodes
    nodes = (living[node_id] for node_id in sorted(node_ids) if node_id in living)
    return [{"node_id": node.id, "host": node.host, "port": node.port} for node in nodes]
