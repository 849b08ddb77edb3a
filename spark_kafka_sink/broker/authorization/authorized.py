"""Requests on their way through their handlers, without what their clients may not do.

What is denied is taken out of the request, the handler answers the rest, and then the refusals are
put into its answer: in the handlers nobody asks for rights.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.authorization.filters import ANSWER_FILTERS
from spark_kafka_sink.broker.authorization.metadata import answer_metadata
from spark_kafka_sink.broker.authorization.requirements import (
    OF_ITEMS,
    OF_PARTITIONS,
    OF_REQUEST,
    REFUSALS,
    Right,
)
from spark_kafka_sink.broker.handlers.request_context import REASON, Outcome
from spark_kafka_sink.broker.requests.message_shapes import BY_ITEM, BY_PARTITION
from spark_kafka_sink.broker.requests.partial import (
    failed_adder,
    failed_item,
    failed_items,
    topic_name,
    without,
)
from spark_kafka_sink.broker.security.acl import ResourceType
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
    from spark_kafka_sink.broker.requests.message_shapes import ItemShape, PartitionShape
    from spark_kafka_sink.protocol.message_builder import Values

_ALL_PARTITIONS_FAIL: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ELECT_LEADERS,
    }
)
"""APIs that have no error for the whole request, or have one beside those of the partitions."""
_NOTHING: Final[dict[int, dict[str, Any]]] = {
    ApiKey.INIT_PRODUCER_ID: {"producer_id": -1, "producer_epoch": -1},
    ApiKey.FIND_COORDINATOR: {"node_id": -1, "port": -1},
}
"""Fields of refused answers that are not what they are by default."""
_MESSAGES: Final[dict[int, str | None]] = {
    ApiKey.CREATE_TOPICS: "Authorization failed.",
    ApiKey.CREATE_PARTITIONS: None,
    ApiKey.FIND_COORDINATOR: "",
}
"""Messages of refused items that are not the one of the error."""
_OF_PARTITIONS: Final[dict[int, dict[str, Any]]] = {
    ApiKey.FETCH: {"aborted_transactions": ()},
    ApiKey.DESCRIBE_PRODUCERS: {"error_message": REFUSALS[ResourceType.TOPIC].message},
}
"""Fields of refused partitions that are not what they are in other failures."""
_OFFSETS_TOP_ERROR: Final = 2
"""Since this version OffsetFetch has an error for the whole request."""


def handle(handler: Handler, context: RequestContext) -> Answer:
    """Handle a request as far as its client may."""
    return _Authorized(handler, context).answer()


class _Authorized:
    """One request on its way."""

    __slots__ = ("_api", "_context", "_handler")

    def __init__(self, handler: Handler, context: RequestContext) -> None:
        self._handler = handler
        self._context = context
        self._api = handler.api

    def answer(self) -> Answer:
        """The answer: of the handler, with refusals, or of refusals alone."""
        context = self._context
        rights = OF_REQUEST.get(self._api)
        lacking = None if rights is None else self._lacking(rights(context.request))
        if lacking is not None:
            return self._refused(lacking)
        if self._api == ApiKey.METADATA:
            return answer_metadata(self._handler, context)
        items = self._items()
        if items is not None:
            return self._without_items(items)
        shape = BY_PARTITION.get(self._api)
        if self._api in OF_PARTITIONS and shape and getattr(context.request, shape.topics, None):
            return self._without_partitions()
        return self._handled(context, self._filtered)

    def _lacking(self, rights: Iterable[Right]) -> Right | None:
        """The first right that is denied."""
        denials, user = self._context.cluster.denials, self._context.user
        return next((right for right in rights if not denials.allows(user, *right)), None)

    def _refused(self, lacking: Right) -> Answer:
        """Refuse the whole request."""
        api, request, refusal = self._api, self._context.request, REFUSALS[lacking.type]
        if api == ApiKey.PRODUCE and request.acks == 0:
            return Outcome.CLOSE
        by_partition = api in _ALL_PARTITIONS_FAIL or (
            api == ApiKey.OFFSET_FETCH and self._context.version < _OFFSETS_TOP_ERROR
        )
        if by_partition:
            shape = BY_PARTITION[api]
            if hasattr(request, shape.topics):
                top = {"error_code": refusal.error} if api == ApiKey.ELECT_LEADERS else {}
                return failed_adder(shape, request, refusal.error)({shape.answers: [], **top})
        failed = failed_items(api, request, refusal.error) or {"error_code": refusal.error}
        about = {"error_message": refusal.message, REASON: self._reason(lacking)}
        return {**failed, **about, **_NOTHING.get(api, {})}

    def _without_partitions(self) -> Answer:
        context, operation = self._context, OF_PARTITIONS[self._api]
        shape = _refusing(self._api)

        def is_out(item: Any, _: object) -> bool:
            name = topic_name(item, self._name_of)
            right = Right(operation, ResourceType.TOPIC, name or "")
            return name is not None and self._lacking((right,)) is not None

        rest = without(shape, context.request, is_out)
        failed = without(shape, context.request, lambda item, one: not is_out(item, one))
        if not getattr(failed, shape.topics):
            return self._handled(context, self._filtered)
        if self._api == ApiKey.PRODUCE and context.request.acks == 0:
            return Outcome.CLOSE
        add = failed_adder(shape, failed, REFUSALS[ResourceType.TOPIC].error)
        if self._api == ApiKey.ADD_PARTITIONS_TO_TXN:
            not_tried = failed_adder(shape, rest, ErrorCode.operation_not_attempted)
            return add(not_tried({shape.answers: []}))
        if not getattr(rest, shape.topics):
            return add({shape.answers: []})
        if self._api == ApiKey.FETCH:
            rest = replace(rest, max_wait=timedelta(0))
        return self._handled(context._replace(request=rest), add)

    def _items(self) -> ItemShape | None:
        """How the request names items that need rights, if it does."""
        if self._api not in OF_ITEMS:
            return None
        shapes = BY_ITEM[self._api]
        request = self._context.request
        return next((one for one in shapes if getattr(request, one.items, None)), None)

    def _without_items(self, shape: ItemShape) -> Answer:
        context, rights = self._context, OF_ITEMS[self._api]
        allowed, refused = [], []
        for item in getattr(context.request, shape.items):
            topic = topic_name(item, self._name_of)
            lacking = self._lacking(rights(context.request, item, topic))
            if lacking is None:
                allowed.append(item)
            else:
                refused.append(self._refused_item(shape, item, lacking))

        def add(values: Values) -> Values:
            filtered = self._filtered(values)
            return {**filtered, shape.answers: [*filtered.get(shape.answers, ()), *refused]}

        if not allowed:
            return add({shape.answers: []})
        rest = replace(context.request, **{shape.items: tuple(allowed)})
        return self._handled(context._replace(request=rest), add)

    def _refused_item(self, shape: ItemShape, item: Any, lacking: Right) -> Values:
        is_new = self._api == ApiKey.CREATE_TOPICS
        error, own = REFUSALS[ResourceType.TOPIC if is_new else lacking.type]
        message = _MESSAGES.get(self._api, own)
        failed = failed_item(shape, item, error)
        return {**failed, "error_message": message, REASON: self._reason(lacking)}

    def _reason(self, lacking: Right) -> str:
        """For the broker's log."""
        return (
            f"User:{self._context.user} is denied {lacking.operation.label} on "
            f"{lacking.type.value} {lacking.name}"
        )

    def _filtered(self, values: Values) -> Values:
        """An answer without what its client may not see."""
        hide = ANSWER_FILTERS.get(self._api)
        return values if hide is None else hide(self._context, values)

    def _handled(self, context: RequestContext, change: Callable[[Values], Values]) -> Answer:
        """Have the request handled, and change the answer, now or when it comes."""
        reply = context.reply
        later = context._replace(reply=lambda values: reply(change(values)))
        answer = self._handler.handle(later)
        return answer if isinstance(answer, Outcome) else change(answer)

    def _name_of(self, topic_id: UUID) -> str | None:
        topic = self._context.cluster.topics.with_id(topic_id)
        return topic.name if topic else None


def _refusing(api: int) -> PartitionShape:
    shape = BY_PARTITION[api]
    own = _OF_PARTITIONS.get(api)
    return shape if own is None else replace(shape, failed={**shape.failed, **own})
