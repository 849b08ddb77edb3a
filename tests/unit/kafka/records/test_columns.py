"""Cached constants of single-row chunks with different lengths are limited."""

import numpy as np
import pyarrow as pa

from spark_kafka_sink.kafka.records.columns import Columns, constant_bytes
from spark_kafka_sink.kafka.records.record_encoder import encode_records


def test_constants_of_single_rows_are_not_kept() -> None:
    blob = bytes(3_000)
    for size in range(20, 3_000):
        key, value = pa.array([blob[: size % 30]]), pa.array([blob[:size]])
        encode_records(Columns(value=value, key=key), np.array([size % 7], np.int32))
    assert constant_bytes.cache_info().currsize <= 1_024
