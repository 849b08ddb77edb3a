"""Validate produced batches and records, and recompress them, as Kafka's LogValidator does.

`validate` is the entry point. It first checks the batch (count, size, checksum and header, as in
Kafka's ProduceRequest and LogValidator), then its records (`check_records`). Records are read as
columns (kafka/records/record_decoder.py). Errors contain the indexes of the rejected records
(KIP-467).

A batch is recompressed if the topic's compression.type is a codec other than that of the batch.

As in Kafka, a failed decompression is reported as an error of the broker (UNKNOWN_SERVER_ERROR).
Unlike Kafka, this broker rejects compressed records whose sizes do not match their content.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records import record_decoder
from spark_kafka_sink.kafka.records.compression import compress
from spark_kafka_sink.kafka.records.record_batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_OFFSET,
    NO_TIMESTAMP,
    BatchHeader,
    as_int64,
    checksum,
    is_transactional,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from spark_kafka_sink.broker.config.topic_config import LogConfig
    from spark_kafka_sink.kafka.records.varint import Numbers


_EARLY = {
    ErrorCode.corrupt_message,
    ErrorCode.message_too_large,
    ErrorCode.unsupported_compression_type,
}
_ZSTD_PRODUCE_VERSION = 7
_MIN_LENGTH = 14
_LENGTH = slice(LENGTH_OFFSET, LENGTH_OFFSET + 4)


class RejectedBatchError(Exception):
    """A batch that must not be appended to the log.

    Args:
        code: Kafka's error code.
        message: the error_message for the response.
        records: the errors of individual records, by their index in the batch (KIP-467).
    """

    def __init__(self, code: ErrorCode, message: str, records: dict[int, str] | None = None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.records = records or {}
        self.is_early = code in _EARLY
        """True if Kafka rejects the batch before it accesses the log. In that case, the response
        has no log start offset.
        """
        self.has_public_message = bool(records)
        """True if Kafka sends the message to the client."""

    @classmethod
    def early(cls, message: str) -> RejectedBatchError:
        """Return INVALID_RECORD for an early rejection, without errors for individual records."""
        rejected = cls(ErrorCode.invalid_record, message)
        rejected.is_early = True
        return rejected


@contextmanager
def rejected_as(error: ErrorCode) -> Iterator[None]:
    """Raise RejectedBatchError with this error code instead of ProtocolError."""
    try:
        yield
    except ProtocolError as cause:
        raise RejectedBatchError(error, cause.message) from cause


class AppendOptions(NamedTuple):
    """The inputs of the validation: log configs, Produce version and time (ms since 1970)."""

    config: LogConfig
    produce_version: int
    now_ms: int


def check_records(records: memoryview | bytes, header: BatchHeader, options: AppendOptions) -> int:
    """Check every record of a batch.

    Returns:
        The largest record timestamp in milliseconds since 1970, or -1 if all are negative.

    Raises:
        RejectedBatchError: a record is not allowed or cannot be read.
    """
    with rejected_as(ErrorCode.unknown_server_error):  # Kafka reports codec errors in this way.
        section = record_decoder.records_section(records, header)
    with rejected_as(ErrorCode.invalid_record):
        if header.record_count == 1:
            [record] = record_decoder.read_few(section, 1)
            return _check_only(record, header, options)
        fields = record_decoder.read_fields(section, header.record_count)
    return _check_fields(fields, header, options)


def _check_fields(
    fields: record_decoder.FieldColumns, header: BatchHeader, options: AppendOptions
) -> int:
    if _must_have_ordered_deltas(header, options):
        expected = np.arange(len(fields.offset_deltas))
        _check_order(in_order=bool((fields.offset_deltas == expected).all()))
    deltas = fields.time_deltas
    span = header.base_timestamp + int(deltas.min()), header.base_timestamp + int(deltas.max())
    if span != (as_int64(span[0]), as_int64(span[1])):
        times = header.base_timestamp + deltas
        span = int(times.min()), int(times.max())
    if options.config.is_compacted or not _is_within_time_limits(span, options):
        _check_each(header.base_timestamp + deltas, fields.key_sizes, options)
    return max(span[1], NO_TIMESTAMP)


def _check_only(
    record: record_decoder.RecordFields, header: BatchHeader, options: AppendOptions
) -> int:
    """Check a single record like `_check_fields`, without the overhead of columns."""
    if _must_have_ordered_deltas(header, options):
        _check_order(in_order=record.offset_delta == 0)
    time = as_int64(header.base_timestamp + record.time_delta)
    if options.config.is_compacted or not _is_within_time_limits((time, time), options):
        times = header.base_timestamp + np.array([record.time_delta])
        _check_each(times, np.array([record.key_size]), options)
    return max(time, NO_TIMESTAMP)


def _must_have_ordered_deltas(header: BatchHeader, options: AppendOptions) -> bool:
    """Return True if Kafka checks offset deltas: it does for compressed, unchanged batches."""
    codec = header.codec
    return codec is not Codec.NONE and options.config.codec in {None, codec}


def _check_order(*, in_order: bool) -> None:
    """Reject compressed records that are not numbered from 0. The client receives no message."""
    if not in_order:
        raise RejectedBatchError(
            ErrorCode.unknown_server_error,
            "The offset deltas of compressed records do not start at 0",
        )


def _is_within_time_limits(span: tuple[int, int], options: AppendOptions) -> bool:
    """Return True if the smallest and the largest timestamp are within the limits (KIP-937)."""
    limits, (lowest, largest) = options.config, span
    if limits.stamps_records:
        return True
    timely = options.now_ms - lowest <= limits.before_max_ms
    return timely and largest - options.now_ms <= limits.after_max_ms


def _check_each(times: Numbers, key_sizes: Numbers, options: AppendOptions) -> None:
    keyless = (key_sizes < 0) & options.config.is_compacted
    late_or_early = _outside_time_limits(times, options) & ~keyless
    if keyless.any() or late_or_early.any():
        raise _rejected_records(keyless, late_or_early, options)


def _outside_time_limits(times: Numbers, options: AppendOptions) -> NDArray[np.bool_]:
    """Return a mask of the timestamps outside the limits (KIP-937). -1 (none) is always valid."""
    limits = options.config
    if limits.stamps_records:
        return np.zeros(len(times), np.bool_)
    ahead = times - options.now_ms
    late = (ahead > limits.after_max_ms) | (-ahead > limits.before_max_ms)
    late_or_early: NDArray[np.bool_] = (times != NO_TIMESTAMP) & late
    return late_or_early


def _rejected_records(
    keyless: NDArray[np.bool_], late_or_early: NDArray[np.bool_], options: AppendOptions
) -> RejectedBatchError:
    limits = options.config
    bad = dict.fromkeys(
        np.flatnonzero(late_or_early).tolist(),
        "Timestamp out of range: it must be within "
        f"[{options.now_ms - limits.before_max_ms}, {options.now_ms + limits.after_max_ms}]",
    ) | dict.fromkeys(
        np.flatnonzero(keyless).tolist(), "Compacted topic cannot accept message without key"
    )
    error = ErrorCode.invalid_timestamp if late_or_early.any() else ErrorCode.invalid_record
    records = dict(sorted(bad.items()))
    return RejectedBatchError(error, "One or more records have been rejected", records)


def _with_largest_time(
    records: memoryview | bytes, header: BatchHeader, largest: int
) -> tuple[memoryview | bytes, BatchHeader]:
    """Return the batch with its largest record timestamp and CreateTime in the header."""
    if header.max_timestamp == largest and not header.is_log_append_time:
        return records, header
    attributes = header.attributes & ~LOG_APPEND_TIME
    body = memoryview(records)[HEADER_SIZE:]
    right = header._replace(attributes=attributes, max_timestamp=largest).pack([body])
    return right + body, BatchHeader.parse(right)


def recompress_records(
    batch: memoryview | bytes, header: BatchHeader, config: LogConfig
) -> tuple[memoryview | bytes, BatchHeader]:
    """Return the batch in the topic's codec, unchanged if the producer used this codec.

    Raises:
        RejectedBatchError: the records cannot be decompressed, or are too large in the new codec.
    """
    codec = config.codec
    if codec is None or header.is_control or codec is header.codec:
        return batch, header
    with rejected_as(ErrorCode.corrupt_message):
        records = compress(codec, record_decoder.records_section(batch, header), config.codec_level)
    attributes = header.attributes & ~CODEC_MASK | codec
    new = header._replace(attributes=attributes).pack([records]) + records
    if len(new) > config.max_bytes:
        raise RejectedBatchError(
            ErrorCode.message_too_large,
            f"The batch has {len(new)} bytes after recompression, but the limit is "
            f"{config.max_bytes}",
        )
    return new, BatchHeader.parse(new)


def validate(
    records: memoryview | bytes | None, options: AppendOptions
) -> tuple[memoryview | bytes, BatchHeader]:
    """Validate the records for one partition of a Produce request, which must be one batch.

    Returns:
        The batch to append and its header, which contains the largest record timestamp.

    Raises:
        RejectedBatchError: the records must not be appended.
    """
    header = single_batch(records)
    records = records or b""
    with rejected_as(ErrorCode.unknown_server_error):  # Kafka reports unknown codecs in this way.
        codec = header.codec
    if codec is Codec.ZSTD and options.produce_version < _ZSTD_PRODUCE_VERSION:
        raise RejectedBatchError(
            ErrorCode.unsupported_compression_type,
            f"Produce requests of version {options.produce_version} may not use ZStandard",
        )
    config = options.config
    if header.size > config.max_bytes:
        raise RejectedBatchError(
            ErrorCode.message_too_large,
            f"The batch of {header.size} bytes exceeds the maximum of {config.max_bytes}",
        )
    if header.size > config.segment_bytes:
        raise RejectedBatchError(
            ErrorCode.record_list_too_large,
            f"The batch of {header.size} bytes exceeds the segment size of {config.segment_bytes}",
        )
    if checksum(records) != header.crc:
        raise RejectedBatchError(ErrorCode.corrupt_message, "The CRC-32C of the batch is wrong")
    _check_header(header)
    return _with_largest_time(records, header, check_records(records, header, options))


def transactional_header(records: memoryview | bytes | None) -> BatchHeader | None:
    """Return the header if the records look like one transactional batch, or else None."""
    if records is None or len(records) < HEADER_SIZE or not is_transactional(records):
        return None
    header = BatchHeader.parse(records)
    is_one = header.magic == MAGIC and header.size == len(records)
    return header if is_one and not header.is_control else None


def _invalid_record(message: str) -> RejectedBatchError:
    return RejectedBatchError(ErrorCode.invalid_record, message)


def single_batch(records: memoryview | bytes | None) -> BatchHeader:
    """Return the header of the only batch. Check the records as in Kafka's ProduceRequest.

    Raises:
        RejectedBatchError: there is no batch, or more than one.
    """
    if not records:
        raise RejectedBatchError.early(
            "Produce requests must have exactly one record batch per partition"
        )
    if _is_older(records):
        raise RejectedBatchError.early(
            f"Message format {records[MAGIC_OFFSET]} is not supported, only format 2: the client "
            "is older than Kafka 0.11, or is configured for such a version"
        )
    if len(records) < HEADER_SIZE:
        raise RejectedBatchError.early(f"{len(records)} bytes is too small for a record batch")
    header = BatchHeader.parse(records)
    if header.length < _MIN_LENGTH or not 0 <= header.magic <= MAGIC:
        rejected = RejectedBatchError(ErrorCode.corrupt_message, "Not a record batch")
        rejected.has_public_message = True
        raise rejected
    if header.size > len(records):
        raise RejectedBatchError.early(
            f"The batch is truncated to {len(records)} of {header.size} bytes"
        )
    if header.size < len(records):
        raise _extra_bytes(records[header.size :])
    return header


def _is_older(records: memoryview | bytes) -> bool:
    """Return True for messages of format 0 or 1, which can be shorter than a batch header."""
    if len(records) <= MAGIC_OFFSET or records[MAGIC_OFFSET] >= MAGIC:
        return False
    return int.from_bytes(records[_LENGTH], signed=True) >= _MIN_LENGTH


def _extra_bytes(surplus: memoryview | bytes) -> RejectedBatchError:
    """Return the error for bytes after a batch, which can be a second batch."""
    header = BatchHeader.parse(surplus) if len(surplus) >= HEADER_SIZE else None
    if header is not None and header.length >= _MIN_LENGTH and header.size <= len(surplus):
        return RejectedBatchError.early("Produce requests must have exactly one record batch")
    return RejectedBatchError(ErrorCode.corrupt_message, "Unexpected bytes after the batch")


def _check_header(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid_record("Clients are not allowed to write control records")
    if header.base_offset != 0:
        raise _invalid_record(f"The base offset must be 0, not {header.base_offset}")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        delta = header.last_offset_delta
        raise _invalid_record(
            f"The record count is {header.record_count}, but the last offset delta is {delta}"
        )
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid_record(
            f"Base sequence {header.base_sequence} is invalid for a producer with an id"
        )
