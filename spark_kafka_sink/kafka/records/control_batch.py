"""Write and read control batches: the markers that end a transaction in a partition (KIP-98).

A marker is one record: its key contains commit or abort, and its value contains the coordinator's
epoch.

Source: Kafka's ``EndTransactionMarker``, ``ControlRecordType`` and
``CompletedFetch.containsAbortMarker``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.kafka.records.record_decoder import decode_batch

_ABORT = 0
_COMMIT = 1

_TRANSACTIONAL_CONTROL = 0x30
_MARKER_VERSION = 0
_NO_COORDINATOR_EPOCH = -1
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_BEFORE_KEY = bytes((2 * 16, 0, 0, 0, 2 * _KEY.size))
"""The start of a marker record: its size after this field, attributes, timestamp delta, offset
delta and key length.
"""
_BEFORE_VALUE = bytes((2 * _VALUE.size,))
_NO_HEADERS = b"\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionMarker:
    """A marker that ends a producer's transaction with a commit or an abort."""

    producer_id: int
    epoch: int
    is_commit: bool
    coordinator_epoch: int = 0


def encode_control_batch(marker: EndTransactionMarker, now_ms: int) -> bytes:
    """Return the control batch for a marker; `now_ms` is the time in milliseconds since 1970."""
    key = _KEY.pack(_MARKER_VERSION, _COMMIT if marker.is_commit else _ABORT)
    value = _VALUE.pack(_MARKER_VERSION, marker.coordinator_epoch)
    record = b"".join((_BEFORE_KEY, key, _BEFORE_VALUE, value, _NO_HEADERS))
    header = BatchHeader(
        attributes=_TRANSACTIONAL_CONTROL,
        last_offset_delta=0,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.epoch,
        record_count=1,
    )
    return header.pack([record]) + record


def read_marker(batch: memoryview | bytes, header: BatchHeader) -> EndTransactionMarker | None:
    """Return the marker in a control batch, or None if compaction has removed the marker.

    As in Java's consumer, only the type in the first record's key counts: some brokers write
    markers without a value, or with another version.

    Raises:
        ProtocolError: the record is not a marker, so it is unknown which records are committed.
    """
    record = next(iter(decode_batch(batch)), None)
    if record is None:
        return None
    key, value = record.key or b"", record.value or b""
    version, kind = _KEY.unpack_from(key) if len(key) >= _KEY.size else (-1, -1)
    if version < 0 or kind not in {_ABORT, _COMMIT}:
        raise ProtocolError(
            f"the control batch at offset {header.base_offset} has the key {key.hex() or 'null'}, "
            "which is not a transaction marker",
            hint="Use a newer version of this package, or brokers that write Kafka's markers.",
        )
    return EndTransactionMarker(
        producer_id=header.producer_id,
        epoch=header.producer_epoch,
        is_commit=kind == _COMMIT,
        coordinator_epoch=_VALUE.unpack_from(value)[1]
        if len(value) >= _VALUE.size
        else _NO_COORDINATOR_EPOCH,
    )
