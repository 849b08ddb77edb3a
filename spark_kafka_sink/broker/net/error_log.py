"""Log failed requests with the client and the reason, and summarize repeated failures.

Errors that occur in normal operation, such as a rebalance, are logged at level INFO, and all other
errors at level WARNING.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.requests.shapes import BY_PARTITION, item_label
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from spark_kafka_sink.broker.net.client_connection import ClientConnection
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


REPEAT_INTERVAL_S = 10.0
"""Minimum number of seconds between two messages of the same kind."""
_MAX_KINDS = 1000
"""Maximum number of kinds whose repetitions are counted."""
_EXPECTED_ERRORS = frozenset(
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
_RESULT_FIELDS = ("topics", "responses", "results", "groups", "coordinators", "resources")
"""The fields of responses with one item per topic, group or resource, which contain error codes."""


@dataclass(slots=True)
class _Repeated:
    """The time when a message was last logged, and how often it was suppressed since then."""

    logged_at: float
    suppressed: int = 0


class RateLimitedLog:
    """Logs at most one message of each kind per `REPEAT_INTERVAL_S`, with a repeat count.

    Args:
        log: the underlying logger.
        now: returns the time in monotonic seconds.
    """

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._last: dict[Hashable, _Repeated] = {}

    def log(self, level: int, kind: Hashable, message: str, *args: object) -> None:
        """Log a message with its arguments, unless a message of its kind was logged recently."""
        if not self._log.isEnabledFor(level):
            return
        now = self._now()
        last = self._last.get(kind)
        if last is not None and now - last.logged_at < REPEAT_INTERVAL_S:
            last.suppressed += 1
            return
        repeated = f" (repeated {last.suppressed:,} times)" if last and last.suppressed else ""
        if len(self._last) >= _MAX_KINDS:
            self._last.clear()
        self._last[kind] = _Repeated(now)
        self._log.log(level, message + repeated, *args)


class ErrorLog(RateLimitedLog):
    """Logs the error codes in responses before the responses are sent."""

    def log_errors(
        self, api: int, peer: str, values: FieldValues, reasons: Mapping[str, str]
    ) -> None:
        """Log the errors in a response. Repeated errors are rate-limited.

        `reasons` contains explanations that are not in the response, by failed part.
        """
        for subject, item in _failed_parts(api, values):
            code = item.get("error_code", ErrorCode.none)
            explanation = reasons.get(subject)
            is_expected = code in _EXPECTED_ERRORS and not explanation
            level = logging.INFO if is_expected else logging.WARNING
            name = getattr(code, "name", str(code)).upper()
            reason = explanation or item.get("error_message") or ""
            self.log(
                level,
                (api, subject, name),
                "%s request%s from %s failed: %s%s",
                ApiKey(api).name,
                f" for {subject}" if subject else "",
                peer,
                name,
                f": {reason}" if reason else "",
            )

    def log_disconnect(self, connection: ClientConnection, reason: object) -> None:
        """Log that the broker closes a connection, and the reason."""
        kind = ("disconnected", type(reason), str(reason))
        self.log(logging.WARNING, kind, "closing connection %s: %s", connection.peer, reason)

    def log_failure(self, connection: ClientConnection, error: Exception) -> None:
        """Log the error of a request, for which the broker closes its connection."""
        if isinstance(error, ProtocolError):
            self.log_disconnect(connection, error)
        elif isinstance(error, OSError):
            self.log_disconnect(connection, f"storage error: {error}")
        else:
            self._log.error("error in a request from %s", connection.peer, exc_info=error)


def _failed_parts(api: int, values: FieldValues) -> Iterator[tuple[str, FieldValues]]:
    """Yield the failed parts of a response, each with the name of the failed resource."""
    if values.get("error_code", ErrorCode.none) is not ErrorCode.none:
        yield "", values
    shape = BY_PARTITION.get(api)
    if shape is None:
        yield from _item_errors(values)
        return
    for topic in values.get(shape.response_topics) or ():
        for part in topic.get(shape.response_partitions) or ():
            code = part.get(shape.error, ErrorCode.none)
            if code is not ErrorCode.none:
                name = topic.get("name") or topic.get("topic") or topic.get("topic_id")
                yield f"{name}-{part.get(shape.response_index)}", {**part, "error_code": code}


def _item_errors(values: FieldValues) -> Iterator[tuple[str, FieldValues]]:
    for name in _RESULT_FIELDS:
        items: Any = values.get(name) or ()
        for item in items:
            if item.get("error_code", ErrorCode.none) is not ErrorCode.none:
                yield item_label(item), item
