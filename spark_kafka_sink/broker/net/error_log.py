"""Every refused request is logged: what was refused, to whom, and why.

Errors that are part of the protocol's ordinary course, such as a rebalance, are logged as
information; all others are warnings.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import REASON
from spark_kafka_sink.broker.requests.message_shapes import BY_PARTITION
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.broker.net.connection import Connection
    from spark_kafka_sink.broker.net.repeat_log import RepeatLog
    from spark_kafka_sink.protocol.message_builder import Values

EXPECTED_ERRORS: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.concurrent_transactions,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.leader_not_available,
        ErrorCode.member_id_required,
        ErrorCode.not_coordinator,
        ErrorCode.not_leader_or_follower,
        ErrorCode.rebalance_in_progress,
        ErrorCode.topic_already_exists,
        ErrorCode.unknown_member_id,
        ErrorCode.unsupported_version,
    }
)
"""Errors that clients handle in normal operation."""

_RESULT_FIELDS: Final = ("topics", "responses", "results", "groups", "coordinators", "resources")


class ErrorLog:
    """Logs the error codes in responses before they are sent."""

    __slots__ = ("_log",)

    def __init__(self, log: RepeatLog) -> None:
        self._log = log

    def log_errors(self, api: int, connection: Connection, values: Values) -> None:
        """Log the errors in a response; repeated ones are rate-limited."""
        for subject, item in _errors(api, values):
            code = item.get("error_code", ErrorCode.none)
            level = logging.INFO if code in EXPECTED_ERRORS else logging.WARNING
            name = getattr(code, "name", str(code)).upper()
            reason = item.get(REASON) or item.get("error_message") or ""
            self._log.log(
                level,
                (api, subject, name),
                "%s%s of %s was refused: %s%s",
                ApiKey(api).name,
                f" at {subject}" if subject else "",
                connection.peer,
                name,
                f": {reason}" if reason else "",
            )

    def disconnected(self, connection: Connection, why: object) -> None:
        """Log that a connection is ended because what came through it can't be served."""
        kind = ("disconnected", type(why), str(why))
        text = "%s is disconnected: %s"
        self._log.log(logging.WARNING, kind, text, connection.peer, why)


def _errors(api: int, values: Values) -> Iterator[tuple[str, Values]]:
    """The failed parts of a response, each with the name of what failed."""
    if values.get("error_code", ErrorCode.none) is not ErrorCode.none:
        yield "", values
    shape = BY_PARTITION.get(api)
    if shape is None:
        yield from _item_errors(values)
        return
    for topic in values.get(shape.answers) or ():
        for part in topic.get(shape.answer_partitions) or ():
            if part.get(shape.error, ErrorCode.none) is not ErrorCode.none:
                name = topic.get("name") or topic.get("topic") or topic.get("topic_id")
                yield f"{name}-{part.get(shape.answer_index)}", _with_error_code(part, shape.error)


def _with_error_code(part: Values, error: str) -> Values:
    return part if error == "error_code" else {**part, "error_code": part[error]}


def _item_errors(values: Values) -> Iterator[tuple[str, Values]]:
    for name in _RESULT_FIELDS:
        items: Any = values.get(name) or ()
        for item in items:
            if item.get("error_code", ErrorCode.none) is not ErrorCode.none:
                yield str(_name_of(item)), item


def _name_of(item: Values) -> object:
    names = ("name", "group_id", "key", "resource_name", "topic_id", "transactional_id")
    return next((item[name] for name in names if item.get(name)), "")
