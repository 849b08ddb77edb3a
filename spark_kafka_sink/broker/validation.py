"""Whether a produced batch may enter a log, as Kafka's ProduceRequest and LogValidator decide.

Counts, sizes and the checksum are judged per batch. Records are looked at one by one only where
the topic asks for it (compaction needs keys) or to name those that are refused (KIP-467).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.base.config import Codec
from spark_kafka_sink.base.errors import ProtocolError
from spark_kafka_sink.records.batch import HEADER_SIZE, MAGIC, BatchHeader, checksum
from spark_kafka_sink.records.decoder import Record, read_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.topic_config import TopicConfig

ZSTD_FROM_VERSION = 7
_SMALLEST_LENGTH = 14


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
class Rules:
    """What batches of one topic have to obey now; `now_ms` since 1970.

    `verified` says that the coordinator knows the partition as part of the batch's transaction.
    """

    config: TopicConfig
    produce_version: int
    now_ms: int
    verified: bool = False


def validate(records: memoryview | bytes | None, rules: Rules) -> BatchHeader:
    """Check the records of one partition of a Produce request: exactly one good batch.

    Raises:
        RefusedBatchError: they may not be appended.
    """
    header = single_batch(records)
    codec = _codec(header)
    if codec is Codec.ZSTD and rules.produce_version < ZSTD_FROM_VERSION:
        raise RefusedBatchError(
            ErrorCode.unsupported_compression_type,
            f"Produce requests of version {rules.produce_version} may not use ZStandard",
        )
    limit = int(rules.config["max.message.bytes"])
    if header.size > limit:
        raise RefusedBatchError(
            ErrorCode.message_too_large,
            f"The batch of {header.size} bytes exceeds the maximum of {limit}",
        )
    segment = rules.config.segment_bytes
    if header.size > segment:
        raise RefusedBatchError(
            ErrorCode.record_list_too_large,
            f"The batch of {header.size} bytes exceeds the segment size of {segment}",
        )
    if checksum(records) != header.crc:
        raise RefusedBatchError(ErrorCode.corrupt_message, "The batch fails its CRC-32C")
    _check_header(header)
    _check_records(records, header, rules)
    return header


def transactional_header(records: memoryview | bytes | None) -> BatchHeader | None:
    """The header of records that look like one batch of a transaction, None for all else."""
    if records is None or len(records) < HEADER_SIZE:
        return None
    header = BatchHeader.parse(records)
    is_one = header.magic == MAGIC and header.size == len(records)
    return header if is_one and header.is_transactional and not header.is_control else None


def _invalid(message: str, records: dict[int, str] | None = None) -> RefusedBatchError:
    return RefusedBatchError(ErrorCode.invalid_record, message, records)


def single_batch(records: memoryview | bytes | None) -> BatchHeader:
    """The header of what looks like one batch, as ``ProduceRequest.validateRecords`` judges.

    Raises:
        RefusedBatchError: it is none, or more than one.
    """
    if not records:
        raise RefusedBatchError.early(
            "Produce requests must have exactly one record batch per partition"
        )
    if len(records) < HEADER_SIZE:
        raise RefusedBatchError.early(f"No record batch fits into {len(records)} bytes")
    header = BatchHeader.parse(records)
    if header.length < _SMALLEST_LENGTH or not 0 <= header.magic <= MAGIC:
        refused = RefusedBatchError(ErrorCode.corrupt_message, "Not a record batch")
        refused.is_told = True
        raise refused
    if header.magic != MAGIC:
        raise RefusedBatchError.early(f"Only batches of format 2 are taken, not {header.magic}")
    if header.size > len(records):
        raise RefusedBatchError.early(f"A batch of {header.size} bytes in {len(records)}")
    if header.size < len(records):
        raise _too_many(records[header.size :])
    return header


def _too_many(rest: memoryview | bytes) -> RefusedBatchError:
    """The error for bytes behind a batch: another batch, or rubbish."""
    header = BatchHeader.parse(rest) if len(rest) >= HEADER_SIZE else None
    if header is not None and header.length >= _SMALLEST_LENGTH and header.size <= len(rest):
        return RefusedBatchError.early("Produce requests must have exactly one record batch")
    return RefusedBatchError(ErrorCode.corrupt_message, "A batch with something behind it")


def _codec(header: BatchHeader) -> Codec:
    try:
        return header.codec
    except ProtocolError as error:  # Kafka's own reader stumbles over it, and says so.
        raise RefusedBatchError(ErrorCode.unknown_server_error, error.message) from error


def _check_header(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("Clients are not allowed to write control records")
    if header.base_offset != 0:
        raise _invalid(f"The base offset must be 0, not {header.base_offset}")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise _invalid(
            f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
        )
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(f"Sequence {header.base_sequence} with a producer id")


def _check_records(records: memoryview | bytes, header: BatchHeader, rules: Rules) -> None:
    if rules.config.is_compacted:
        _refuse_where(
            records,
            lambda record: record.key is None,
            ErrorCode.invalid_record,
            "Compacted topic cannot accept message without key",
        )
    oldest, newest = _allowed_times(rules)
    if not rules.config.stamps_records and not (
        oldest <= header.base_timestamp and header.max_timestamp <= newest
    ):
        _refuse_where(
            records,
            lambda record: not oldest <= record.timestamp <= newest,
            ErrorCode.invalid_timestamp,
            f"Timestamp out of range: it must be within [{oldest}, {newest}]",
        )


def _allowed_times(rules: Rules) -> tuple[int, int]:
    """Limits of KIP-937."""
    before = int(rules.config["message.timestamp.before.max.ms"])
    after = int(rules.config["message.timestamp.after.max.ms"])
    return rules.now_ms - before, rules.now_ms + after


def _refuse_where(
    records: memoryview | bytes, is_bad: Callable[[Record], bool], error: ErrorCode, message: str
) -> None:
    try:
        bad = {i: message for i, record in enumerate(read_records(records)) if is_bad(record)}
    except ProtocolError as broken:
        raise RefusedBatchError(ErrorCode.corrupt_message, broken.message) from broken
    if bad:
        raise RefusedBatchError(error, "One or more records have been rejected", bad)
