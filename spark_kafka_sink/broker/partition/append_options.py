"""The rules that a produced batch has to obey, and the refusal of one that does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

if TYPE_CHECKING:
    from spark_kafka_sink.broker.topic_config import TopicConfig

_EARLY = {
    ErrorCode.corrupt_message,
    ErrorCode.message_too_large,
    ErrorCode.unsupported_compression_type,
}


class RefusedBatchError(Exception):
    """A batch that must not enter the log.

    Args:
        error: Kafka's code for it.
        message: what is wrong, for the response's error_message.
        records: what is wrong with single records, by their index in the batch (KIP-467).
        is_told: whether Kafka sends the message along.
        is_early: whether Kafka refuses it before it looks at the log, whose start it then
            does not tell.
    """

    def __init__(self, error: ErrorCode, message: str, records: dict[int, str] | None = None):
        super().__init__(message)
        self.error = error
        self.message = message
        self.records = records or {}
        self.is_early = error in _EARLY
        self.is_told = bool(records)

    @classmethod
    def early(cls, message: str) -> RefusedBatchError:
        """What can't be records at all: INVALID_RECORD of the request, not of a record."""
        refused = cls(ErrorCode.invalid_record, message)
        refused.is_early = True
        return refused


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOptions:
    """What batches of one topic have to obey now; `now_ms` since 1970.

    `verified` says that the coordinator knows the partition as part of the batch's transaction.
    """

    config: TopicConfig
    produce_version: int
    now_ms: int
    verified: bool = False
