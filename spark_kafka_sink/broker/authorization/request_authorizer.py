"""Authorize requests: check what a client may do, and remove denied items from requests.

The rules are in `required_operations`. Denied partitions and items are removed from the request,
the handler processes the rest, and errors for the denied parts are added to its response
(`ServedApi.handle_authorized`).

Handlers themselves check only the resources that a request does not list, such as all topics or all
groups, and the topics in Metadata requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.broker.authorization.denials import Denial
from spark_kafka_sink.broker.authorization.required_operations import (
    OF_ITEMS,
    OF_PARTITIONS,
    RequiredOperation,
    operations_on_item,
    operations_on_request,
)
from spark_kafka_sink.broker.requests.request_shapes import (
    BY_PARTITION,
    failed_adder,
    failed_items,
    item_label,
    item_shape_of,
    split_request,
)
from spark_kafka_sink.kafka.protocol.acl import ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spark_kafka_sink.broker.authorization.denials import Denials
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


@dataclass(frozen=True, slots=True)
class AuthorizedRequest:
    """The allowed part of a request, and the errors of its denied parts."""

    request: Any
    """The request without the denied parts, or None if nothing remains to be handled."""
    add_errors: Callable[[FieldValues], FieldValues] | None = None
    """Adds the errors of the denied parts to a response; None if nothing is denied."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reasons for errors, for the broker's log; see `RequestContext.explain`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAuthorizer:
    """Authorizes one request."""

    api: ApiKey
    version: int
    request: Any
    user: str
    denials: Denials
    topic_name: Callable[[Any], str | None]
    """Returns the topic name of an item of the request, or None if the topic is unknown."""

    def authorize(self) -> AuthorizedRequest:
        """Remove the denied parts from the request."""
        denied = self._first_denied(operations_on_request(self.api, self.request))
        if denied is not None:
            return self._reject_request(denied)
        if self.api in OF_ITEMS and (items := item_shape_of(self.api, self.request)) is not None:
            return self._remove_denied_items(items)
        if self.api in OF_PARTITIONS:
            shape = _shape_of_rejection(self.api)
            if getattr(self.request, shape.topics, None):
                return self._remove_denied_partitions(shape)
        return AuthorizedRequest(self.request)

    def _first_denied(self, operations: Iterable[RequiredOperation]) -> RequiredOperation | None:
        """Return the first operation that is denied, or None."""
        allows, user = self.denials.allows, self.user
        return next((required for required in operations if not allows(user, *required)), None)

    def _reject_request(self, denied: RequiredOperation) -> AuthorizedRequest:
        """Reject the request as a whole."""
        api, request, rejection = self.api, self.request, _REJECTIONS[denied.type]
        by_partition = api in _ALL_PARTITIONS_FAIL or (
            api == ApiKey.OFFSET_FETCH and self.version < _OFFSETS_TOP_ERROR
        )
        if by_partition:
            shape = BY_PARTITION[api]
            if hasattr(request, shape.topics):
                add = failed_adder(shape, request, rejection.code)
                top = {"error_code": rejection.code} if api == ApiKey.ELECT_LEADERS else {}
                return AuthorizedRequest(None, lambda _: add(top))
        failed = failed_items(api, request, rejection.code) or {"error_code": rejection.code}
        response = {**failed, "error_message": rejection.message, **_NOTHING.get(api, {})}
        return AuthorizedRequest(None, lambda _: response, {"": self._denial_reason(denied)})

    def _remove_denied_partitions(self, shape: PartitionShape) -> AuthorizedRequest:
        operation = OF_PARTITIONS[self.api]

        def is_denied(item: Any, _: object) -> bool:
            name = self.topic_name(item)
            required = RequiredOperation(operation, ResourceType.TOPIC, name or "")
            return name is not None and self._first_denied((required,)) is not None

        allowed, denied = split_request(shape, self.request, is_denied)
        if not getattr(denied, shape.topics):
            return AuthorizedRequest(self.request)
        add = failed_adder(shape, denied, _REJECTIONS[ResourceType.TOPIC].code)
        if self.api == ApiKey.ADD_PARTITIONS_TO_TXN:
            not_attempted = failed_adder(shape, allowed, ErrorCode.operation_not_attempted)
            return AuthorizedRequest(None, lambda values: add(not_attempted(values)))
        return AuthorizedRequest(allowed if getattr(allowed, shape.topics) else None, add)

    def _remove_denied_items(self, shape: ItemShape) -> AuthorizedRequest:
        allowed, rejected, reasons = [], [], {}
        for item in getattr(self.request, shape.items):
            operations = operations_on_item(self.api, self.request, item, self.topic_name(item))
            denied = self._first_denied(operations)
            if denied is None:
                allowed.append(item)
            else:
                response = self._reject_item(shape, item, denied)
                rejected.append(response)
                reasons[item_label(response)] = self._denial_reason(denied)
        if not rejected:
            return AuthorizedRequest(self.request)

        def add(values: FieldValues) -> FieldValues:
            items = [*values.get(shape.response_items, ()), *rejected]
            return {**values, shape.response_items: items}

        remaining = replace(self.request, **{shape.items: tuple(allowed)}) if allowed else None
        return AuthorizedRequest(remaining, add, reasons)

    def _reject_item(self, shape: ItemShape, item: Any, denied: RequiredOperation) -> FieldValues:
        is_new = self.api == ApiKey.CREATE_TOPICS
        error, message_of_type = _REJECTIONS[ResourceType.TOPIC if is_new else denied.type]
        message = _MESSAGES.get(self.api, message_of_type)
        return {**shape.item_response(item, error), "error_message": message}

    def _denial_reason(self, denied: RequiredOperation) -> str:
        """Return the reason for a denied request, for the broker's log."""
        return str(Denial(user=self.user, **denied._asdict()))


def _shape_of_rejection(api: int) -> PartitionShape:
    shape = BY_PARTITION[api]
    fields = _OF_PARTITIONS.get(api)
    return shape if fields is None else replace(shape, failed={**shape.failed, **fields})
