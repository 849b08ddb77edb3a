"""Whether each record of a produced batch may enter a log, as Kafka's LogValidator decides.

Records are read as columns (records/column_decoder.py); those that are refused are named
(KIP-467). Kafka takes a failure to decompress for an error of its own, and does not compare the
sizes of compressed records with their content, which is refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.partition.refused_batch import RefusedBatchError
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.records.column_decoder import (
    FieldColumns,
    RecordFields,
    read_few,
    read_fields,
)
from spark_kafka_sink.records.decoder import records_section
from spark_kafka_sink.records.record_batch import HEADER_SIZE, NO_TIMESTAMP, BatchHeader, as_int64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.broker.partition.append_options import AppendOptions
    from spark_kafka_sink.records.varint import Numbers

LOG_APPEND_TIME = 0x08


def check_records(records: memoryview | bytes, header: BatchHeader, options: AppendOptions) -> int:
    """Check every record of a batch.

    Returns:
        The largest time of the records, in milliseconds since 1970; -1 if all are negative.

    Raises:
        RefusedBatchError: some may not be appended, or can't be read.
    """
    section = _section(records, header)
    try:
        if header.record_count == 1:
            [record] = read_few(section, 1)
            return _check_only(record, header, options)
        fields = read_fields(section, header.record_count)
    except ProtocolError as error:
        raise RefusedBatchError(ErrorCode.invalid_record, error.message) from error
    return _check_fields(fields, header, options)


def _section(records: memoryview | bytes, header: BatchHeader) -> memoryview:
    try:
        return records_section(records, header)
    except ProtocolError as error:  # Kafka's readers of codecs fail, which it takes for its own.
        raise RefusedBatchError(ErrorCode.unknown_server_error, error.message) from error


def _check_fields(fields: FieldColumns, header: BatchHeader, options: AppendOptions) -> int:
    if _has_to_be_numbered(header, options):
        expected = np.arange(len(fields.offset_deltas))
        _check_numbers(in_order=bool((fields.offset_deltas == expected).all()))
    deltas = fields.time_deltas
    span = header.base_timestamp + int(deltas.min()), header.base_timestamp + int(deltas.max())
    if span != (as_int64(span[0]), as_int64(span[1])):
        times = header.base_timestamp + deltas
        span = int(times.min()), int(times.max())
    if options.config.batch_rules.is_compacted or not _all_timely(span, options):
        _check_each(header.base_timestamp + deltas, fields.key_sizes, options)
    return max(span[1], NO_TIMESTAMP)


def _check_only(record: RecordFields, header: BatchHeader, options: AppendOptions) -> int:
    """As `_check_fields`: for one record columns cost more than all else."""
    if _has_to_be_numbered(header, options):
        _check_numbers(in_order=record.offset_delta == 0)
    time = as_int64(header.base_timestamp + record.time_delta)
    if options.config.batch_rules.is_compacted or not _all_timely((time, time), options):
        times = header.base_timestamp + np.array([record.time_delta])
        _check_each(times, np.array([record.key_size]), options)
    return max(time, NO_TIMESTAMP)


def _has_to_be_numbered(header: BatchHeader, options: AppendOptions) -> bool:
    """Whether Kafka looks at offset deltas: it takes records that stay compressed as they are."""
    codec = header.codec
    return codec is not Codec.NONE and options.config.batch_rules.codec in {None, codec}


def _check_numbers(*, in_order: bool) -> None:
    """Kafka fails at compressed records that are not numbered from 0, and tells no reason."""
    if not in_order:
        raise RefusedBatchError(
            ErrorCode.unknown_server_error, "Compressed records that are not numbered from 0"
        )


def _all_timely(span: tuple[int, int], options: AppendOptions) -> bool:
    """Whether the smallest and the largest time say that no record is out of KIP-937's limits."""
    limits, (lowest, largest) = options.config.batch_rules, span
    if limits.stamps_records:
        return True
    timely = options.now_ms - lowest <= limits.before_max_ms
    return timely and largest - options.now_ms <= limits.after_max_ms


def _check_each(times: Numbers, key_sizes: Numbers, options: AppendOptions) -> None:
    keyless = (key_sizes < 0) & options.config.batch_rules.is_compacted
    untimely = _untimely(times, options) & ~keyless
    if keyless.any() or untimely.any():
        raise _refused_records(keyless, untimely, options)


def _untimely(times: Numbers, options: AppendOptions) -> NDArray[np.bool_]:
    """Which records are out of the limits of KIP-937; no time (-1) is within."""
    limits = options.config.batch_rules
    if limits.stamps_records:
        return np.zeros(len(times), np.bool_)
    ahead = times - options.now_ms
    late = (ahead > limits.after_max_ms) | (-ahead > limits.before_max_ms)
    untimely: NDArray[np.bool_] = (times != NO_TIMESTAMP) & late
    return untimely


def _refused_records(
    keyless: NDArray[np.bool_], untimely: NDArray[np.bool_], options: AppendOptions
) -> RefusedBatchError:
    limits = options.config.batch_rules
    bad = dict.fromkeys(
        np.flatnonzero(untimely).tolist(),
        "Timestamp out of range: it must be within "
        f"[{options.now_ms - limits.before_max_ms}, {options.now_ms + limits.after_max_ms}]",
    ) | dict.fromkeys(
        np.flatnonzero(keyless).tolist(), "Compacted topic cannot accept message without key"
    )
    error = ErrorCode.invalid_timestamp if untimely.any() else ErrorCode.invalid_record
    return RefusedBatchError(
        error, "One or more records have been rejected", dict(sorted(bad.items()))
    )


def with_largest_time(
    records: memoryview | bytes, header: BatchHeader, largest: int
) -> tuple[memoryview | bytes, BatchHeader]:
    """A batch whose header tells its records' largest time, and that the producer set them."""
    if header.max_timestamp == largest and not header.is_log_append_time:
        return records, header
    attributes = header.attributes & ~LOG_APPEND_TIME
    body = memoryview(records)[HEADER_SIZE:]
    right = header._replace(attributes=attributes, max_timestamp=largest).pack([body])
    return right + body, BatchHeader.parse(right)
