"""Record batches as a broker has them in its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.encoder import encode_records, slice_records
from spark_kafka_sink.records.record_batch import TRANSACTIONAL, BatchHeader

if TYPE_CHECKING:
    from collections.abc import Sequence


def batch(
    values: Sequence[bytes | None],
    *,
    base: int = 0,
    producer: int | None = None,
    epoch: int = 0,
    leader_epoch: int = 0,
    sequence: int = -1,
) -> bytes:
    """Records with the key `b"k"` from the offset `base` on, in a transaction if of a producer."""
    keys = pa.array([b"k"] * len(values), pa.binary())
    columns = Columns(value=pa.array(values, pa.binary()), key=keys)
    encoded = encode_records(columns, np.arange(len(values), dtype=np.int32))
    data = slice_records(encoded, 0, len(values))
    header = BatchHeader(
        base_offset=base,
        leader_epoch=leader_epoch,
        attributes=0 if producer is None else TRANSACTIONAL,
        last_offset_delta=len(values) - 1,
        base_timestamp=1,
        max_timestamp=1,
        producer_id=-1 if producer is None else producer,
        producer_epoch=-1 if producer is None else epoch,
        base_sequence=sequence,
        record_count=len(values),
    )
    return header.pack([data]) + data.tobytes()
