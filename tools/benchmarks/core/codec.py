"""Codecs: the cost and ratio of each level, without a broker.

One thread compresses batches of 1 MiB of events, as in the product.
"""

import time
from collections.abc import Sequence
from math import inf
from typing import Any, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.compression import compress, decompress
from spark_kafka_sink.kafka.records.record_encoder import encode_records, slice_records
from tools.benchmarks import tables
from tools.benchmarks.kafka import Plan, Workbench
from tools.benchmarks.payload import events

LEVELS: tuple[tuple[Codec, int | None, str], ...] = (
    (Codec.SNAPPY, None, "-"),
    (Codec.LZ4, None, "9 (default, fast)"),
    (Codec.LZ4, 3, "3"),
    (Codec.LZ4, 12, "12"),
    (Codec.ZSTD, -5, "-5"),
    (Codec.ZSTD, 1, "1"),
    (Codec.ZSTD, None, "3 (default)"),
    (Codec.ZSTD, 6, "6"),
    (Codec.ZSTD, 12, "12"),
    (Codec.GZIP, 1, "1"),
    (Codec.GZIP, None, "6 (default)"),
    (Codec.GZIP, 9, "9"),
)
_BATCH_BYTES = 1 << 20
_ROWS = 7_000
"""Number of records in a batch of nearly 1 MiB."""
_BATCHES = 4


def measure_costs(rounds: int) -> list[dict[str, Any]]:
    """Measure all codecs in turn. CPU times are the best of all rounds."""
    payloads = [_payload(seed) for seed in range(_BATCHES)]
    size = sum(len(payload) for payload in payloads)
    best = {(codec, words): (inf, inf) for codec, _, words in LEVELS}
    packed_sizes = {}
    for _ in range(rounds):
        for codec, level, words in LEVELS:
            started = time.thread_time()
            packed = [compress(codec, payload, level) for payload in payloads]
            middle = time.thread_time()
            for payload in packed:
                decompress(codec, payload, 2 * _BATCH_BYTES)
            spent = (middle - started, time.thread_time() - middle)
            compressing, decompressing = map(min, best[codec, words], spent)
            best[codec, words] = (compressing, decompressing)
            packed_sizes[codec, words] = sum(map(len, packed))
    return [
        {
            "codec": codec.name.lower(),
            "level": words,
            "ratio": size / packed_sizes[codec, words],
            "us_per_record": compressing / (_ROWS * _BATCHES) * 1e6,
            "mb_per_s": size / compressing / 1e6,
            "decompress_mb_per_s": size / decompressing / 1e6,
        }
        for (codec, words), (compressing, decompressing) in best.items()
    ]


def cost_table(costs: Sequence[dict[str, Any]]) -> tables.Table:
    """Return a table with a row for each codec and level. MB are uncompressed."""
    formats = ("", "", ".2f", ".3f", ",.0f", ",.0f")
    rows = [
        tuple(f"{value:{format_}}" for value, format_ in zip(cost.values(), formats, strict=True))
        for cost in costs
    ]
    columns = ("codec", "level", "ratio", "CPU us/rec", "MB/s", "MB/s, decompressing")
    title = "Codecs and levels: cost and savings, 131-byte JSON events in batches of 1 MiB"
    return tables.Table(title, columns, rows)


def _payload(seed: int) -> bytes:
    """Return the records section of a batch."""
    values = cast("pa.BinaryArray", events(_ROWS, seed).cast(pa.binary()))
    columns = Columns(value=values, key=None, headers=None)
    encoded = encode_records(columns, np.arange(_ROWS, dtype=np.int32))
    payload = bytes(slice_records(encoded, 0, _ROWS))
    assert len(payload) <= _BATCH_BYTES
    return payload


def measure(bench: Workbench, plan: Plan) -> tables.Figures:
    """Measure all codecs and levels."""
    bench.log("codecs by level")
    costs = measure_costs(5 * plan.rounds)
    return tables.Figures([cost_table(costs)], [], costs)
