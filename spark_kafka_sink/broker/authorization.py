"""Authorize requests: check what a client may do, and remove denied items from requests.

`handle` checks a request before it calls the handler. The rules are in `required_operations`.
Denied partitions and items are removed from the request, the handler processes the rest, and errors
for the denied parts are added to its response.

Handlers themselves check only the resources that a request does not list, such as all topics or all
groups, and the topics in Metadata requests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.broker.handlers.request_context import NoFields
from spark_kafka_sink.broker.requests import request_shapes
from spark_kafka_sink.broker.required_operations import (
    OF_ITEMS,
    OF_PARTITIONS,
    RequiredOperation,
    operations_on_item,
    operations_on_request,
)
from spark_kafka_sink.broker.security.denials import Denial
from spark_kafka_sink.kafka.protocol.acl import ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_kafka_sink.broker.handlers.request_context import (
        HandlerResult,
        RequestContext,
        ServedApi,
    )
    from spark_kafka_sink.broker.requests.request_shapes import ItemShape, PartitionShape
    from spark_kafka_sink.kafka.protocol.messages import FieldValues

_ALL_PARTITIONS_FAIL = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ELECT_LEADERS,
    }
)
"""APIs whose responses have no top-level error, or also have partition errors."""
_NOTHING: dict[int, dict[str, Any]] = {
    ApiKey.INIT_PRODUCER_ID: {"producer_id": -1, "producer_epoch": -1},
    ApiKey.FIND_COORDINATOR: {"node_id": -1, "port": -1},
}
"""Non-default field values of responses to denied requests, by API."""
_MESSAGES: dict[int, str | None] = {
    ApiKey.CREATE_TOPICS: "Authorization failed.",
    ApiKey.CREATE_PARTITIONS: None,
    ApiKey.FIND_COORDINATOR: "",
}
"""Messages for denied items, by API, if they differ from the error's default message."""
_OFFSETS_TOP_ERROR = 2
"""The first version of OffsetFetch with an error for the whole request."""


class _Rejection(NamedTuple):
    """The error code and message for denied operations on resources of one type."""

    code: ErrorCode
    message: str


_REJECTIONS = {
    type_: _Rejection(
        ErrorCode[f"{type_.name.lower()}_authorization_failed"],
        f"{type_.name.replace('_', ' ').title()} authorization failed.",
    )
    for type_ in ResourceType
}
_OF_PARTITIONS: dict[int, dict[str, Any]] = {
    ApiKey.FETCH: {"aborted_transactions": ()},
    ApiKey.DESCRIBE_PRODUCERS: {"error_message": _REJECTIONS[ResourceType.TOPIC].message},
}
"""Field values of denied partitions, by API, if they differ from those of other failures."""


def handle(handler: ServedApi, context: RequestContext) -> HandlerResult:
    """Handle a request, except for the parts for which the client is not authorized."""
    return _Authorizer(handler, context).handle()


class _Authorizer:
    """Authorizes one request."""

    def __init__(self, handler: ServedApi, context: RequestContext) -> None:
        self._handler = handler
        self._context = context
        self._api = handler.api

    def handle(self) -> HandlerResult:
        """Return the handler's result with errors for the denied parts.

        If the whole request is denied, the handler is not called.
        """
        context = self._context
        denied = self._first_denied(operations_on_request(self._api, context.request))
        if denied is not None:
            return self._reject_request(denied)
        items = (
            request_shapes.item_shape_of(self._api, context.request)
            if self._api in OF_ITEMS
            else None
        )
        if items is not None:
            return self._handle_allowed_items(items)
        shape = request_shapes.BY_PARTITION.get(self._api)
        if self._api in OF_PARTITIONS and shape and getattr(context.request, shape.topics, None):
            return self._handle_allowed_partitions()
        return self._handler.handle(context)

    def _first_denied(self, operations: Iterable[RequiredOperation]) -> RequiredOperation | None:
        """Return the first operation that is denied, or None."""
        return next(
            (operation for operation in operations if not self._context.allows(*operation)), None
        )

    def _reject_request(self, denied: RequiredOperation) -> HandlerResult:
        """Return the response for a request that is denied as a whole."""
        api, request, rejection = self._api, self._context.request, _REJECTIONS[denied.type]
        if api == ApiKey.PRODUCE and request.acks == 0:
            return NoFields.CLOSE
        by_partition = api in _ALL_PARTITIONS_FAIL or (
            api == ApiKey.OFFSET_FETCH and self._context.version < _OFFSETS_TOP_ERROR
        )
        if by_partition:
            shape = request_shapes.BY_PARTITION[api]
            if hasattr(request, shape.topics):
                top = {"error_code": rejection.code} if api == ApiKey.ELECT_LEADERS else {}
                return request_shapes.failed_adder(shape, request, rejection.code)(
                    {shape.response_topics: [], **top}
                )
        failed = request_shapes.failed_items(api, request, rejection.code) or {
            "error_code": rejection.code
        }
        self._explain("", denied)
        return {**failed, "error_message": rejection.message, **_NOTHING.get(api, {})}

    def _handle_allowed_partitions(self) -> HandlerResult:
        context, operation = self._context, OF_PARTITIONS[self._api]
        shape = _shape_of_rejection(self._api)

        def is_denied(item: Any, _: object) -> bool:
            name = self._context.topic_name(item)
            required = RequiredOperation(operation, ResourceType.TOPIC, name or "")
            return name is not None and self._first_denied((required,)) is not None

        allowed_request, denied_request = request_shapes.split_request(
            shape, context.request, is_denied
        )
        if not getattr(denied_request, shape.topics):
            return self._handler.handle(context)
        if self._api == ApiKey.PRODUCE and context.request.acks == 0:
            return NoFields.CLOSE
        add = request_shapes.failed_adder(
            shape, denied_request, _REJECTIONS[ResourceType.TOPIC].code
        )
        if self._api == ApiKey.ADD_PARTITIONS_TO_TXN:
            not_attempted = request_shapes.failed_adder(
                shape, allowed_request, ErrorCode.operation_not_attempted
            )
            return add(not_attempted({shape.response_topics: []}))
        if not getattr(allowed_request, shape.topics):
            return add({shape.response_topics: []})
        return self._call_handler(context._replace(request=allowed_request), add)

    def _handle_allowed_items(self, shape: ItemShape) -> HandlerResult:
        context = self._context
        allowed, rejected = [], []
        for item in getattr(context.request, shape.items):
            topic = self._context.topic_name(item)
            operations = operations_on_item(self._api, context.request, item, topic)
            denied = self._first_denied(operations)
            if denied is None:
                allowed.append(item)
            else:
                rejected.append(self._reject_item(shape, item, denied))

        def add(values: FieldValues) -> FieldValues:
            items = [*values.get(shape.response_items, ()), *rejected]
            return {**values, shape.response_items: items}

        if not allowed:
            return add({shape.response_items: []})
        allowed_request = replace(context.request, **{shape.items: tuple(allowed)})
        return self._call_handler(context._replace(request=allowed_request), add)

    def _reject_item(self, shape: ItemShape, item: Any, denied: RequiredOperation) -> FieldValues:
        is_new = self._api == ApiKey.CREATE_TOPICS
        error, message_of_type = _REJECTIONS[ResourceType.TOPIC if is_new else denied.type]
        message = _MESSAGES.get(self._api, message_of_type)
        failed = shape.item_response(item, error)
        self._explain(request_shapes.item_label(failed), denied)
        return {**failed, "error_message": message}

    def _explain(self, label: str, denied: RequiredOperation) -> None:
        """Log the reason for the error of the request or of an item."""
        self._context.explain(label, str(Denial(user=self._context.user, **denied._asdict())))

    def _call_handler(
        self, context: RequestContext, change: Callable[[FieldValues], FieldValues]
    ) -> HandlerResult:
        """Call the handler and apply `change` to its result, which may be delayed."""
        reply = context.reply
        delayed = context._replace(reply=lambda values: reply(change(values)))
        result = self._handler.handle(delayed)
        return result if isinstance(result, NoFields) else change(result)


def _shape_of_rejection(api: int) -> PartitionShape:
    shape = request_shapes.BY_PARTITION[api]
    fields = _OF_PARTITIONS.get(api)
    return shape if fields is None else replace(shape, failed={**shape.failed, **fields})
