"""The error of a topic that cannot be created, found or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode


class TopicError(Exception):
    """A topic cannot be created, found or changed.

    Args:
        code: Kafka's error code.
        message: a description of the problem, for the response.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
