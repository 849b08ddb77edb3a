"""Whether a produced batch may enter a log, as Kafka's ProduceRequest and LogValidator decide.

Counts, sizes and the checksum are checked here, records in record_validator.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.partition.record_validator import check_records, with_largest_time
from spark_kafka_sink.broker.partition.refused_batch import RefusedBatchError
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.records.record_batch import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    checksum,
    is_transactional,
)

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.append_options import AppendOptions

ZSTD_FROM_VERSION = 7
_SMALLEST_LENGTH = 14
_LENGTH = slice(8, 12)
_MAGIC_AT = 16
"""Where all three formats have their length and number."""


def validate(
    records: memoryview | bytes | None, options: AppendOptions
) -> tuple[memoryview | bytes, BatchHeader]:
    """Check the records of one partition of a Produce request: exactly one good batch.

    Returns:
        The batch to append, with the largest time of its records in its header, and that header.

    Raises:
        RefusedBatchError: they may not be appended.
    """
    header = single_batch(records)
    records = records or b""
    codec = _codec(header)
    if codec is Codec.ZSTD and options.produce_version < ZSTD_FROM_VERSION:
        raise RefusedBatchError(
            ErrorCode.unsupported_compression_type,
            f"Produce requests of version {options.produce_version} may not use ZStandard",
        )
    limit = options.config.batch_rules.max_bytes
    if header.size > limit:
        raise RefusedBatchError(
            ErrorCode.message_too_large,
            f"The batch of {header.size} bytes exceeds the maximum of {limit}",
        )
    segment = options.config.batch_rules.segment_bytes
    if header.size > segment:
        raise RefusedBatchError(
            ErrorCode.record_list_too_large,
            f"The batch of {header.size} bytes exceeds the segment size of {segment}",
        )
    if checksum(records) != header.crc:
        raise RefusedBatchError(ErrorCode.corrupt_message, "The batch fails its CRC-32C")
    _check_header(header)
    return with_largest_time(records, header, check_records(records, header, options))


def transactional_header(records: memoryview | bytes | None) -> BatchHeader | None:
    """The header of records that look like one batch of a transaction, None for all else."""
    if records is None or len(records) < HEADER_SIZE or not is_transactional(records):
        return None
    header = BatchHeader.parse(records)
    is_one = header.magic == MAGIC and header.size == len(records)
    return header if is_one and not header.is_control else None


def _invalid(message: str, records: dict[int, str] | None = None) -> RefusedBatchError:
    return RefusedBatchError(ErrorCode.invalid_record, message, records)


def single_batch(records: memoryview | bytes | None) -> BatchHeader:
    """The header of what looks like one batch, as ``ProduceRequest.validateRecords`` checks.

    Raises:
        RefusedBatchError: it is none, or more than one.
    """
    if not records:
        raise RefusedBatchError.early(
            "Produce requests must have exactly one record batch per partition"
        )
    if _is_older(records):
        raise RefusedBatchError.early(
            f"Messages of format {records[_MAGIC_AT]} are not taken, only batches of format 2: "
            "the client is older than Kafka 0.11, or is set to such a version"
        )
    if len(records) < HEADER_SIZE:
        raise RefusedBatchError.early(f"No record batch fits into {len(records)} bytes")
    header = BatchHeader.parse(records)
    if header.length < _SMALLEST_LENGTH or not 0 <= header.magic <= MAGIC:
        refused = RefusedBatchError(ErrorCode.corrupt_message, "Not a record batch")
        refused.is_told = True
        raise refused
    if header.size > len(records):
        raise RefusedBatchError.early(f"A batch of {header.size} bytes in {len(records)}")
    if header.size < len(records):
        raise _too_many(records[header.size :])
    return header


def _is_older(records: memoryview | bytes) -> bool:
    """Whether these look like messages of format 0 or 1; one of them may be short."""
    if len(records) <= _MAGIC_AT or records[_MAGIC_AT] >= MAGIC:
        return False
    return int.from_bytes(records[_LENGTH], signed=True) >= _SMALLEST_LENGTH


def _too_many(rest: memoryview | bytes) -> RefusedBatchError:
    """The error for bytes behind a batch: another batch, or anything else."""
    header = BatchHeader.parse(rest) if len(rest) >= HEADER_SIZE else None
    if header is not None and header.length >= _SMALLEST_LENGTH and header.size <= len(rest):
        return RefusedBatchError.early("Produce requests must have exactly one record batch")
    return RefusedBatchError(ErrorCode.corrupt_message, "A batch with something behind it")


def _codec(header: BatchHeader) -> Codec:
    try:
        return header.codec
    except ProtocolError as error:  # Kafka's own reader fails at it, and tells so.
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
