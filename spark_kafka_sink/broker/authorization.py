"""Authorize requests: check what a client may do, and remove denied items from requests.

`handle` checks a request before it calls the handler. The following tables contain the rules of
Kafka's KafkaApis and ControllerApis:

- `OF_REQUEST`: operations required for the whole request; if one is denied, the request fails
- `OF_PARTITIONS`: the operation required on each topic whose partitions a request contains
- `OF_ITEMS`: operations required for each item, such as a topic, group or config resource

Denied partitions and items are removed from the request, the handler processes the rest, and errors
for the denied parts are added to its response.

Handlers themselves check only the resources that a request does not list, such as all topics or all
groups, and the topics in Metadata requests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker import request_shapes
from spark_kafka_sink.broker.handlers.request_context import REASON, Outcome
from spark_kafka_sink.broker.security.acl import CLUSTER_NAME, Denial
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
    from spark_kafka_sink.broker.request_shapes import ItemShape, PartitionShape
    from spark_kafka_sink.kafka.protocol.messages import Values


_TRANSACTION_KEY: Final = 1
"""Key type of transactional ids in FindCoordinator; groups have key type 0."""
_CONFIG_RESOURCES: Final[Mapping[int, ResourceType]] = {
    2: ResourceType.TOPIC,
    32: ResourceType.GROUP,
}
"""Resource types of the authorizer by ConfigResource type. All other types map to the cluster."""
_WRITE_TRANSACTION: Final = (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id")
_READ_GROUP: Final = (AclOperation.READ, ResourceType.GROUP, "group_id")
OF_PARTITIONS: Final[Mapping[int, AclOperation]] = {
    ApiKey.PRODUCE: AclOperation.WRITE,
    ApiKey.FETCH: AclOperation.READ,
    ApiKey.LIST_OFFSETS: AclOperation.DESCRIBE,
    ApiKey.OFFSET_COMMIT: AclOperation.READ,
    ApiKey.OFFSET_FETCH: AclOperation.DESCRIBE,
    ApiKey.OFFSET_DELETE: AclOperation.READ,
    ApiKey.TXN_OFFSET_COMMIT: AclOperation.READ,
    ApiKey.ADD_PARTITIONS_TO_TXN: AclOperation.WRITE,
    ApiKey.DELETE_RECORDS: AclOperation.DELETE,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: AclOperation.DESCRIBE,
    ApiKey.DESCRIBE_PRODUCERS: AclOperation.READ,
}
"""The operation required on each topic whose partitions a request contains, by API."""
_OF_ITEM: Final = None
"""Placeholder for a resource type that the item (config resource, coordinator key) determines."""
OF_ITEMS: Final[Mapping[int, tuple[tuple[AclOperation, ResourceType | None], ...]]] = {
    ApiKey.CREATE_TOPICS: (
        (AclOperation.CREATE, ResourceType.TOPIC),
        (AclOperation.CREATE, ResourceType.CLUSTER),
    ),
    ApiKey.DELETE_TOPICS: (
        (AclOperation.DESCRIBE, ResourceType.TOPIC),
        (AclOperation.DELETE, ResourceType.TOPIC),
    ),
    ApiKey.CREATE_PARTITIONS: ((AclOperation.ALTER, ResourceType.TOPIC),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ((AclOperation.DESCRIBE, ResourceType.TOPIC),),
    ApiKey.FIND_COORDINATOR: ((AclOperation.DESCRIBE, _OF_ITEM),),
    ApiKey.OFFSET_FETCH: ((AclOperation.DESCRIBE, ResourceType.GROUP),),
    ApiKey.DESCRIBE_GROUPS: ((AclOperation.DESCRIBE, ResourceType.GROUP),),
    ApiKey.DELETE_GROUPS: ((AclOperation.DELETE, ResourceType.GROUP),),
    ApiKey.DESCRIBE_TRANSACTIONS: ((AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),),
    ApiKey.DESCRIBE_CONFIGS: ((AclOperation.DESCRIBE_CONFIGS, _OF_ITEM),),
    ApiKey.ALTER_CONFIGS: ((AclOperation.ALTER_CONFIGS, _OF_ITEM),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ((AclOperation.ALTER_CONFIGS, _OF_ITEM),),
}
"""Operations required for each item of a request, and the resource types, by API."""
_ALL_PARTITIONS_FAIL: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ELECT_LEADERS,
    }
)
"""APIs whose responses have no top-level error, or also have partition errors."""
_NOTHING: Final[dict[int, dict[str, Any]]] = {
    ApiKey.INIT_PRODUCER_ID: {"producer_id": -1, "producer_epoch": -1},
    ApiKey.FIND_COORDINATOR: {"node_id": -1, "port": -1},
}
"""Non-default field values of responses to denied requests, by API."""
_MESSAGES: Final[dict[int, str | None]] = {
    ApiKey.CREATE_TOPICS: "Authorization failed.",
    ApiKey.CREATE_PARTITIONS: None,
    ApiKey.FIND_COORDINATOR: "",
}
"""Messages for denied items, by API, if they differ from the error's default message."""
_OFFSETS_TOP_ERROR: Final = 2
"""The first version of OffsetFetch with an error for the whole request."""


class Right(NamedTuple):
    """An operation on a resource."""

    operation: AclOperation
    type: ResourceType
    name: str


class Rejection(NamedTuple):
    """The error code and message for denied operations on resources of one type."""

    error: ErrorCode
    message: str


REJECTIONS: Final = {
    type_: Rejection(
        ErrorCode[f"{type_.name.lower()}_authorization_failed"],
        f"{type_.name.replace('_', ' ').title()} authorization failed.",
    )
    for type_ in ResourceType
}


def _on_cluster(operation: AclOperation) -> tuple[AclOperation, ResourceType, str]:
    return operation, ResourceType.CLUSTER, ""


OF_REQUEST: Final[Mapping[int, tuple[tuple[AclOperation, ResourceType, str], ...]]] = {
    ApiKey.PRODUCE: (_WRITE_TRANSACTION,),
    ApiKey.OFFSET_COMMIT: (_READ_GROUP,),
    ApiKey.OFFSET_FETCH: ((AclOperation.DESCRIBE, ResourceType.GROUP, "group_id"),),
    ApiKey.JOIN_GROUP: (_READ_GROUP,),
    ApiKey.HEARTBEAT: (_READ_GROUP,),
    ApiKey.LEAVE_GROUP: (_READ_GROUP,),
    ApiKey.SYNC_GROUP: (_READ_GROUP,),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (_READ_GROUP,),
    ApiKey.OFFSET_DELETE: ((AclOperation.DELETE, ResourceType.GROUP, "group_id"),),
    ApiKey.INIT_PRODUCER_ID: (_WRITE_TRANSACTION,),
    ApiKey.ADD_PARTITIONS_TO_TXN: ((*_WRITE_TRANSACTION[:2], "v3_and_below_transactional_id"),),
    ApiKey.ADD_OFFSETS_TO_TXN: (_WRITE_TRANSACTION, _READ_GROUP),
    ApiKey.TXN_OFFSET_COMMIT: (_WRITE_TRANSACTION, _READ_GROUP),
    ApiKey.END_TXN: (_WRITE_TRANSACTION,),
    ApiKey.WRITE_TXN_MARKERS: (_on_cluster(AclOperation.CLUSTER_ACTION),),
    ApiKey.DESCRIBE_LOG_DIRS: (_on_cluster(AclOperation.DESCRIBE),),
    ApiKey.ELECT_LEADERS: (_on_cluster(AclOperation.ALTER),),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_on_cluster(AclOperation.ALTER),),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (_on_cluster(AclOperation.DESCRIBE),),
    ApiKey.LIST_CONFIG_RESOURCES: (_on_cluster(AclOperation.DESCRIBE_CONFIGS),),
}
"""Operations required for the whole request, by API. If any is denied, the request fails.

Each entry also specifies the resource type and the request field that contains the resource name.
If the field is null or missing, the operation is not required.
"""


def _request_rights(api: ApiKey, request: Any) -> Iterator[Right]:
    if api == ApiKey.INIT_PRODUCER_ID and request.transactional_id is None:
        yield Right(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
    if api == ApiKey.ADD_PARTITIONS_TO_TXN and hasattr(request, "transactions"):
        yield Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    if api == ApiKey.FIND_COORDINATOR and hasattr(request, "key"):
        yield from _item_rights(api, request, request.key, None)
    for operation, type_, field in OF_REQUEST.get(api, ()):
        name = getattr(request, field, None) if field else CLUSTER_NAME
        if name is not None:
            yield Right(operation, type_, name)


def _item_rights(api: ApiKey, request: Any, item: Any, topic: str | None) -> Iterator[Right]:
    """Yield the rights that an item requires. If the item is a topic, `topic` is its name."""
    for operation, known_type in OF_ITEMS[api]:
        type_ = known_type
        if type_ is ResourceType.TOPIC:
            name = topic
        elif type_ is ResourceType.CLUSTER:
            name = CLUSTER_NAME
        elif type_ is not None:
            name = getattr(item, "group_id", item)
        else:
            type_, name = _resource_of(request, item)
        if name is not None:
            yield Right(operation, type_, name)


def _resource_of(request: Any, item: Any) -> tuple[ResourceType, str]:
    """Return the type and name of the resource that an item refers to."""
    if not hasattr(item, "resource_type"):
        is_transaction = getattr(request, "key_type", 0) == _TRANSACTION_KEY
        return ResourceType.TRANSACTIONAL_ID if is_transaction else ResourceType.GROUP, item
    type_ = _CONFIG_RESOURCES.get(int(item.resource_type), ResourceType.CLUSTER)
    return type_, CLUSTER_NAME if type_ is ResourceType.CLUSTER else item.resource_name


_OF_PARTITIONS: Final[dict[int, dict[str, Any]]] = {
    ApiKey.FETCH: {"aborted_transactions": ()},
    ApiKey.DESCRIBE_PRODUCERS: {"error_message": REJECTIONS[ResourceType.TOPIC].message},
}
"""Field values of denied partitions, by API, if they differ from those of other failures."""


def handle(handler: Handler, context: RequestContext) -> Answer:
    """Handle a request, except for the parts for which the client is not authorized."""
    return _Authorized(handler, context).answer()


class _Authorized:
    """Authorizes one request."""

    def __init__(self, handler: Handler, context: RequestContext) -> None:
        self._handler = handler
        self._context = context
        self._api = handler.api

    def answer(self) -> Answer:
        """Return the handler's answer with errors for the denied parts.

        If the whole request is denied, the handler is not called.
        """
        context = self._context
        denied = self._first_denied(_request_rights(self._api, context.request))
        if denied is not None:
            return self._refused(denied)
        items = (
            request_shapes.items_of(self._api, context.request) if self._api in OF_ITEMS else None
        )
        if items is not None:
            return self._without_items(items)
        shape = request_shapes.BY_PARTITION.get(self._api)
        if self._api in OF_PARTITIONS and shape and getattr(context.request, shape.topics, None):
            return self._without_partitions()
        return self._handler.handle(context)

    def _first_denied(self, rights: Iterable[Right]) -> Right | None:
        """Return the first right that is denied, or None."""
        return next((right for right in rights if not self._context.allows(*right)), None)

    def _refused(self, denied: Right) -> Answer:
        """Return the response for a request that is denied as a whole."""
        api, request, rejection = self._api, self._context.request, REJECTIONS[denied.type]
        if api == ApiKey.PRODUCE and request.acks == 0:
            return Outcome.CLOSE
        by_partition = api in _ALL_PARTITIONS_FAIL or (
            api == ApiKey.OFFSET_FETCH and self._context.version < _OFFSETS_TOP_ERROR
        )
        if by_partition:
            shape = request_shapes.BY_PARTITION[api]
            if hasattr(request, shape.topics):
                top = {"error_code": rejection.error} if api == ApiKey.ELECT_LEADERS else {}
                return request_shapes.failed_adder(shape, request, rejection.error)(
                    {shape.answers: [], **top}
                )
        failed = request_shapes.failed_items(api, request, rejection.error) or {
            "error_code": rejection.error
        }
        about = {"error_message": rejection.message, REASON: self._reason(denied)}
        return {**failed, **about, **_NOTHING.get(api, {})}

    def _without_partitions(self) -> Answer:
        context, operation = self._context, OF_PARTITIONS[self._api]
        shape = _refusing(self._api)

        def is_denied(item: Any, _: object) -> bool:
            name = self._context.topic_name(item)
            right = Right(operation, ResourceType.TOPIC, name or "")
            return name is not None and self._first_denied((right,)) is not None

        rest, failed = request_shapes.split(shape, context.request, is_denied)
        if not getattr(failed, shape.topics):
            return self._handler.handle(context)
        if self._api == ApiKey.PRODUCE and context.request.acks == 0:
            return Outcome.CLOSE
        add = request_shapes.failed_adder(shape, failed, REJECTIONS[ResourceType.TOPIC].error)
        if self._api == ApiKey.ADD_PARTITIONS_TO_TXN:
            not_attempted = request_shapes.failed_adder(
                shape, rest, ErrorCode.operation_not_attempted
            )
            return add(not_attempted({shape.answers: []}))
        if not getattr(rest, shape.topics):
            return add({shape.answers: []})
        return self._handled(context._replace(request=rest), add)

    def _without_items(self, shape: ItemShape) -> Answer:
        context = self._context
        allowed, refused = [], []
        for item in getattr(context.request, shape.items):
            topic = self._context.topic_name(item)
            rights = _item_rights(self._api, context.request, item, topic)
            denied = self._first_denied(rights)
            if denied is None:
                allowed.append(item)
            else:
                refused.append(self._refused_item(shape, item, denied))

        def add(values: Values) -> Values:
            return {**values, shape.answers: [*values.get(shape.answers, ()), *refused]}

        if not allowed:
            return add({shape.answers: []})
        rest = replace(context.request, **{shape.items: tuple(allowed)})
        return self._handled(context._replace(request=rest), add)

    def _refused_item(self, shape: ItemShape, item: Any, denied: Right) -> Values:
        is_new = self._api == ApiKey.CREATE_TOPICS
        error, own = REJECTIONS[ResourceType.TOPIC if is_new else denied.type]
        message = _MESSAGES.get(self._api, own)
        failed = shape.answer(item, error)
        return {**failed, "error_message": message, REASON: self._reason(denied)}

    def _reason(self, denied: Right) -> str:
        """Return the reason for a denied request, for the broker's log."""
        return str(Denial(user=self._context.user, **denied._asdict()))

    def _handled(self, context: RequestContext, change: Callable[[Values], Values]) -> Answer:
        """Call the handler and apply `change` to its answer, which may be delayed."""
        reply = context.reply
        delayed = context._replace(reply=lambda values: reply(change(values)))
        answer = self._handler.handle(delayed)
        return answer if isinstance(answer, Outcome) else change(answer)


def _refusing(api: int) -> PartitionShape:
    shape = request_shapes.BY_PARTITION[api]
    own = _OF_PARTITIONS.get(api)
    return shape if own is None else replace(shape, failed={**shape.failed, **own})
