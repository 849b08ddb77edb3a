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

from spark_kafka_sink.broker.authorization.denials import Denial, Denials
from spark_kafka_sink.broker.authorization.required_operations import (
    OF_ITEMS,
    OF_PARTITIONS,
    RequiredOperation,
    operations_on_item,
    operations_on_request,
)
from spark_kafka_sink.broker.requests import shapes
from spark_kafka_sink.kafka.protocol.acl import ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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


@dataclass(frozen=True, slots=True)
class RequestAuthorizer:
    """Authorizes one request."""

    _denials: Denials
    _user: str
    _topic_name: Callable[[Any], str | None]
    """Returns the topic name of an item of the request, or None if the topic is unknown."""
    _api: ApiKey
    _version: int
    _request: Any

    def authorize(self) -> AuthorizedRequest:
        """Remove the denied parts from the request."""
        denied = self._first_denied(operations_on_request(self._api, self._request))
        if denied is not None:
            return self._reject_request(denied)
        if (
            self._api in OF_ITEMS
            and (items := shapes.item_shape_of(self._api, self._request)) is not None
        ):
            return self._remove_denied_items(items)
        if self._api in OF_PARTITIONS:
            shape = _shape_of_rejection(self._api)
            if getattr(self._request, shape.topics, None):
                return self._remove_denied_partitions(shape)
        return AuthorizedRequest(self._request)

    def _first_denied(self, operations: Iterable[RequiredOperation]) -> RequiredOperation | None:
        """Return the first operation that is denied, or None."""
        allows, user = self._denials.allows, self._user
        return next((required for required in operations if not allows(user, *required)), None)

    def _reject_request(self, denied: RequiredOperation) -> AuthorizedRequest:
        """Reject the request as a whole."""
        api, request, rejection = self._api, self._request, _REJECTIONS[denied.type]
        by_partition = api in _ALL_PARTITIONS_FAIL or (
            api == ApiKey.OFFSET_FETCH and self._version < _OFFSETS_TOP_ERROR
        )
        if by_partition:
            shape = shapes.BY_PARTITION[api]
            if hasattr(request, shape.topics):
                add = shapes.failed_adder(shape, request, rejection.code)
                top = {"error_code": rejection.code} if api == ApiKey.ELECT_LEADERS else {}
                return AuthorizedRequest(None, lambda _: add(top))
        failed = shapes.failed_items(api, request, rejection.code) or {"error_code": rejection.code}
        response = {**failed, "error_message": rejection.message, **_NOTHING.get(api, {})}
        return AuthorizedRequest(None, lambda _: response, {"": self._denial_reason(denied)})

    def _remove_denied_partitions(self, shape: shapes.PartitionShape) -> AuthorizedRequest:
        operation = OF_PARTITIONS[self._api]

        def is_denied(item: Any, _: object) -> bool:
            name = self._topic_name(item)
            required = RequiredOperation(operation, ResourceType.TOPIC, name or "")
            return name is not None and self._first_denied((required,)) is not None

        allowed, denied = shapes.split_request(shape, self._request, is_denied)
        if not getattr(denied, shape.topics):
            return AuthorizedRequest(self._request)
        add = shapes.failed_adder(shape, denied, _REJECTIONS[ResourceType.TOPIC].code)
        if self._api == ApiKey.ADD_PARTITIONS_TO_TXN:
            not_attempted = shapes.failed_adder(shape, allowed, ErrorCode.operation_not_attempted)
            return AuthorizedRequest(None, lambda values: add(not_attempted(values)))
        return AuthorizedRequest(allowed if getattr(allowed, shape.topics) else None, add)

    def _remove_denied_items(self, shape: shapes.ItemShape) -> AuthorizedRequest:
        allowed, rejected, reasons = [], [], {}
        for item in getattr(self._request, shape.items):
            operations = operations_on_item(self._api, self._request, item, self._topic_name(item))
            denied = self._first_denied(operations)
            if denied is None:
                allowed.append(item)
            else:
                response = self._reject_item(shape, item, denied)
                rejected.append(response)
                reasons[shapes.item_label(response)] = self._denial_reason(denied)
        if not rejected:
            return AuthorizedRequest(self._request)

        def add(values: FieldValues) -> FieldValues:
            items = [*values.get(shape.response_items, ()), *rejected]
            return {**values, shape.response_items: items}

        remaining = replace(self._request, **{shape.items: tuple(allowed)}) if allowed else None
        return AuthorizedRequest(remaining, add, reasons)

    def _reject_item(
        self, shape: shapes.ItemShape, item: Any, denied: RequiredOperation
    ) -> FieldValues:
        is_new = self._api == ApiKey.CREATE_TOPICS
        error, message_of_type = _REJECTIONS[ResourceType.TOPIC if is_new else denied.type]
        message = _MESSAGES.get(self._api, message_of_type)
        return {**shape.item_response(item, error), "error_message": message}

    def _denial_reason(self, denied: RequiredOperation) -> str:
        """Return the reason for a denied request, for the broker's log."""
        return str(Denial(user=self._user, **denied._asdict()))


def _shape_of_rejection(api: int) -> shapes.PartitionShape:
    shape = shapes.BY_PARTITION[api]
    fields = _OF_PARTITIONS.get(api)
    return shape if fields is None else replace(shape, failed={**shape.failed, **fields})
