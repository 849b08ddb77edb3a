"""An error that the response to a request contains."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode


class ResponseError(Exception):
    """A request, or a part of it, is rejected: for example, a topic cannot be created.

    Args:
        code: Kafka's error code.
        message: a description of the problem, for the response.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
