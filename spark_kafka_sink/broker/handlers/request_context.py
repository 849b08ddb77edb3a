"""The context that handlers receive, the possible results of handlers, and shared functions.

`RequestContext.handle_each_partition` and `handle_each_item` call a function for each part of a
request.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spark_kafka_sink.broker.authorization.authorized_operations import (
    REQUESTED_BY,
    authorized_operations,
)
from spark_kafka_sink.broker.authorization.authorizer import RequestAuthorizer
from spark_kafka_sink.broker.authorization.denials import CLUSTER_NAME
from spark_kafka_sink.broker.requests.purgatory import DelayedOperation
from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.broker.requests.shapes import (
    BY_ITEM,
    BY_PARTITION,
    ItemResult,
    id_of,
    name_of,
)
from spark_kafka_sink.kafka.protocol.acl import NO_OPERATIONS
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.isolation_level import IsolationLevel
from spark_kafka_sink.kafka.protocol.messages import FieldValues
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

_STORAGE_ERRORS = dict.fromkeys(
    (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_DELETE, ApiKey.TXN_OFFSET_COMMIT),
    ErrorCode.not_coordinator,
)
"""Errors of group coordinators whose storage fails, as in Kafka. Clients retry these requests."""


class NoFields(Enum):
    """Results of a handler without response fields."""

    DELAYED = "the response is sent later with RequestContext.reply"
    NO_RESPONSE = "the request has no response"
    CLOSE = "the request has no response, and its connection is closed"


HandlerResult: TypeAlias = FieldValues | NoFields
"""The result of a handler: response fields of the newest version, or a `NoFields`."""


class RequestContext(NamedTuple):
    """A request, and the objects that its handler can use."""

    cluster: Cluster
    api: ApiKey
    node: int
    """Id of the node that received the request."""
    version: int
    request: Any
    """The decoded request (an object of the kio library)."""
    client_id: str
    """The client id; "" if the client sent none."""
    client_host: str
    user: str
    """The authenticated user, or ANONYMOUS if the listener does not authenticate."""
    reply: Callable[[FieldValues], None]
    """Sends the response of a handler that returned DELAYED."""
    is_closed: Callable[[], bool]
    """Returns True if the client has disconnected."""
    explain: Callable[[str, str], None]
    """Gives the broker's log the reason for the error of a part of the response. The part is named
    as in the log: "topic-0" for a partition, "" for the whole request.
    """

    def get(self, field: str, default: Any) -> Any:
        """Return a field of the request, or `default` if the request's version lacks the field."""
        return getattr(self.request, field, default)

    def allows(self, operation: AclOperation, type_: ResourceType, name: str) -> bool:
        """Return True if the client may perform an operation on a resource."""
        return self.cluster.denials.allows(self.user, operation, type_, name)

    def authorized_operations(self, type_: ResourceType, name: str) -> int:
        """Return the authorized operations on a resource."""
        return authorized_operations(self.cluster.denials, self.user, type_, name)

    def requested_operations(self, type_: ResourceType, name: str | None = CLUSTER_NAME) -> int:
        """Return the authorized operations on a resource, or `NO_OPERATIONS`."""
        if not self.get(REQUESTED_BY[type_], False):
            return NO_OPERATIONS
        return self.authorized_operations(type_, name or "")

    def coordinates(self, key: str) -> bool:
        """Return True if the receiving node coordinates a group or transactional id."""
        return self.cluster.coordinator(key).id == self.node

    def wait(
        self,
        time: timedelta,
        try_complete: Callable[[], bool],
        build_response: Callable[[], FieldValues],
        keys: tuple[TopicPartition, ...],
    ) -> NoFields:
        """Respond when `try_complete` returns True or `time` has passed; return DELAYED.

        `try_complete` is called after changes of the topic-partitions in `keys`.
        `build_response` returns the response.
        """
        deadline = self.cluster.clock.monotonic() + time.total_seconds()
        self.cluster.purgatory.add(
            DelayedOperation(
                deadline=deadline,
                try_complete=try_complete,
                on_complete=lambda: self.reply(build_response()),
                is_abandoned=self.is_closed,
                keys=keys,
            )
        )
        return NoFields.DELAYED

    @property
    def reads_committed(self) -> bool:
        """True if the request's isolation level is read_committed."""
        return bool(self.get("isolation_level", 0) == IsolationLevel.READ_COMMITTED)

    def group_coordinator_error(self) -> ErrorCode:
        """Return an error if the receiving node does not coordinate the request's group."""
        if not self.request.group_id:
            return ErrorCode.invalid_group_id
        here = self.coordinates(self.request.group_id)
        return ErrorCode.none if here else ErrorCode.not_coordinator

    def transaction_coordinator_error(self, transactional_id: str) -> ErrorCode:
        """Return an error if the receiving node does not coordinate the transactional id."""
        here = not transactional_id or self.coordinates(transactional_id)
        return ErrorCode.none if here else ErrorCode.not_coordinator

    def handle_each_partition(self, handle: Callable[[Any, Any], ItemResult]) -> dict[str, Any]:
        """Call `handle` for each partition of the request; return the response with the results.

        The arguments of `handle` are the request's items for topic and partition. It can raise
        ResponseError. If it raises OSError, the partition fails with Kafka's error for a failed
        storage.
        """
        shape = BY_PARTITION[self.api]
        items = getattr(self.request, shape.topics)

        def result(item: Any, partition: Any) -> ItemResult:
            try:
                return result_of(handle, item, partition)
            except OSError as error:
                topic = name_of(item) or id_of(item)
                self.explain(f"{topic}-{shape.index_of(partition)}", str(error))
                return _STORAGE_ERRORS.get(self.api, ErrorCode.kafka_storage_error)

        topics = [shape.topic_response(item, partial(result, item)) for item in items]
        return {shape.response_topics: topics}

    def handle_each_item(self, handle: Callable[[Any], ItemResult]) -> dict[str, Any]:
        """Call `handle` for each item of the request; return the response with the results.

        `handle` can raise ResponseError.
        """
        shape = next(
            candidate for candidate in BY_ITEM[self.api] if hasattr(self.request, candidate.items)
        )
        items = getattr(self.request, shape.items)
        responses = [shape.item_response(item, result_of(handle, item)) for item in items]
        return {shape.response_items: responses}

    def partition(self, name: str | None, index: int) -> Partition:
        """Return a partition.

        Raises:
            ResponseError: the partition does not exist.
        """
        partition = self.cluster.topics.partition(name, index)
        if partition is None:
            raise ResponseError(ErrorCode.unknown_topic_or_partition)
        return partition

    def led_partition(self, name: str, index: int, epoch: int = -1) -> Partition:
        """Return a partition that the receiving node leads.

        Raises:
            ResponseError: the partition does not exist, or the node is not its leader at the
                client's leader epoch. A negative `epoch` is not checked.
        """
        partition = self.partition(name, index)
        if error := partition.leadership_error(self.node, epoch):
            raise ResponseError(error)
        return partition

    def find_topic(self, item: Any) -> Topic | None:
        """Return the topic of a request item, found by name or (in newer versions) by id."""
        topics = self.cluster.topics
        return topics.with_id(id_of(item)) or topics.named(name_of(item))

    def topic_name(self, item: Any) -> str | None:
        """Return the topic name of a request item, or None if the item has an unknown id."""
        topic = self.cluster.topics.with_id(id_of(item))
        return topic.name if topic else name_of(item)

    def endpoints(self, node_ids: set[int]) -> list[FieldValues]:
        """Return the addresses of the given nodes for a response (KIP-951)."""
        active = self.cluster.nodes
        nodes = (active[node_id] for node_id in sorted(node_ids) if node_id in active)
        return [{"node_id": node.id, "host": node.host, "port": node.port} for node in nodes]


@dataclass(frozen=True, slots=True)
class ServedApi:
    """The versions of an API, and the function that handles its requests.

    `announced` is the version range for ApiVersions if it differs from `versions`.
    """

    api: ApiKey
    versions: VersionRange
    handle: Callable[[RequestContext], HandlerResult]
    announced: VersionRange | None = None

    def handle_authorized(self, context: RequestContext) -> HandlerResult:
        """Handle a request, except for the parts for which the client is not authorized."""
        if not context.cluster.denials.is_active:
            return self.handle(context)
        denials, user, version = context.cluster.denials, context.user, context.version
        authorized = RequestAuthorizer(
            denials, user, context.topic_name, self.api, version, context.request
        ).authorize()
        for part, reason in authorized.reasons.items():
            context.explain(part, reason)
        add_errors = authorized.add_errors
        if add_errors is None:
            return self.handle(context)
        if self.api is ApiKey.PRODUCE and context.request.acks == 0:
            return NoFields.CLOSE
        if authorized.request is None:
            return add_errors({})
        reply = context.reply
        allowed = context._replace(
            request=authorized.request, reply=lambda values: reply(add_errors(values))
        )
        result = self.handle(allowed)
        return result if isinstance(result, NoFields) else add_errors(result)


def result_of(handle: Callable[..., ItemResult], *items: Any) -> ItemResult:
    """Return the result of `handle` for items of a request. A ResponseError is also a result."""
    try:
        return handle(*items)
    except ResponseError as error:
        return error
