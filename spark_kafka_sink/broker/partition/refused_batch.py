"""A batch that may not be appended, with Kafka's error for it."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

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
