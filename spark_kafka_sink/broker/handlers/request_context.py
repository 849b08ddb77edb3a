"""One request on its way through a handler."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from spark_kafka_sink.broker.purgatory import DelayedOperation
from spark_kafka_sink.protocol.message_builder import Values

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from spark_kafka_sink.broker.cluster.cluster import Cluster
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
