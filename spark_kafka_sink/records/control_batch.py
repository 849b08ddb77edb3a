"""Control batches: the markers that end a transaction in a partition (KIP-98).

As Kafka's EndTransactionMarker and ControlRecordType: one record, whose key says commit or abort
and whose value names the coordinator's epoch.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.records.decoder import read_records
from spark_kafka_sink.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from typing import Final

ABORT: Final = 0
COMMIT: Final = 1

_TRANSACTIONAL_CONTROL = 0x30
_VERSION = 0
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_BEFORE_KEY = bytes((2 * 16, 0, 0, 0, 2 * _KEY.size))
"""Varints: length of the rest, attributes, deltas of time and offset, length of the key."""
_BEFORE_VALUE = bytes((2 * _VALUE.size,))
_NO_HEADERS = b"\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionMarker:
    """How a producer's transaction ended."""

    producer_id: int
    epoch: int
    commit: bool
    coordinator_epoch: int = 0


def control_batch(marker: EndTransactionMarker, now_ms: int) -> bytes:
    """The batch to append for a marker; `now_ms` since 1970."""
    key = _KEY.pack(_VERSION, COMMIT if marker.commit else ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
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
    """The marker in a control batch, None if it holds something else or nothing."""
    record = next(iter(read_records(batch)), None)
    if record is None or not record.key or len(record.key) < _KEY.size:
        return None
    kind = _KEY.unpack_from(record.key)[1]
    if kind not in {ABORT, COMMIT} or not record.value or len(record.value) < _VALUE.size:
        return None
    if not header.is_transactional:
        raise ProtocolError("a transaction marker outside of a transactional batch")
    return EndTransactionMarker(
        producer_id=header.producer_id,
        epoch=header.producer_epoch,
        commit=kind == COMMIT,
        coordinator_epoch=_VALUE.unpack_from(record.value)[1],
    )
