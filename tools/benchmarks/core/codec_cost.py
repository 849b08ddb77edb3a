"""What each codec costs and saves, level by level: `python -m tools.benchmarks.core.codec_cost`.

Batches of 1 MiB of the events, compressed as the product does, on one thread; no broker.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.compression import compress, decompress
from spark_kafka_sink.records.encoder import encode_records, slice_records
from tools.benchmarks.payload import events
from tools.benchmarks.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

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
"""Records in a batch: nearly 1 MiB."""
_BATCHES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecCost:
    """One codec at one level; CPU times are the best of all rounds."""

    codec: str
    level: str
    ratio: float
    """Bytes before to bytes after."""
    us_per_record: float
    mb_per_s: float
    """Uncompressed megabytes a CPU second."""
    decompress_mb_per_s: float


def measure(rounds: int) -> list[CodecCost]:
    """All codecs in turns, `rounds` times."""
    payloads = [_payload(seed) for seed in range(_BATCHES)]
    size = sum(len(payload) for payload in payloads)
    spent: dict[tuple[Codec, str], list[tuple[float, float]]] = {}
    packed_sizes: dict[tuple[Codec, str], int] = {}
    for _ in range(rounds):
        for codec, level, words in LEVELS:
            started = time.thread_time()
            packed = [compress(codec, payload, level) for payload in payloads]
            middle = time.thread_time()
            for one in packed:
                decompress(codec, one, 2 * _BATCH_BYTES)
            ended = time.thread_time()
            spent.setdefault((codec, words), []).append((middle - started, ended - middle))
            packed_sizes[codec, words] = sum(map(len, packed))
    return [
        CodecCost(
            codec=codec.name.lower(),
            level=words,
            ratio=size / packed_sizes[codec, words],
            us_per_record=min(pair[0] for pair in times) / (_ROWS * _BATCHES) * 1e6,
            mb_per_s=size / min(pair[0] for pair in times) / 1e6,
            decompress_mb_per_s=size / min(pair[1] for pair in times) / 1e6,
        )
        for (codec, words), times in spent.items()
    ]


def cost_table(costs: Sequence[CodecCost]) -> Table:
    """A row for each codec and level."""
    rows = [
        (
            cost.codec,
            cost.level,
            f"{cost.ratio:.2f}",
            f"{cost.us_per_record:.3f}",
            f"{cost.mb_per_s:,.0f}",
            f"{cost.decompress_mb_per_s:,.0f}",
        )
        for cost in costs
    ]
    columns = ("codec", "level", "ratio", "CPU us/rec", "MB/s", "MB/s, decompressing")
    title = "Codecs and levels: what they cost and save, 131-byte JSON events in batches of 1 MiB"
    return Table(title, columns, rows)


def _payload(seed: int) -> bytes:
    """The records section of a batch."""
    values = cast("pa.BinaryArray", events(_ROWS, seed).cast(pa.binary()))
    columns = Columns(value=values, key=None, headers=None)
    encoded = encode_records(columns, np.arange(_ROWS, dtype=np.int32))
    payload = bytes(slice_records(encoded, 0, _ROWS))
    assert len(payload) <= _BATCH_BYTES
    return payload


if __name__ == "__main__":
    sys.stdout.write(cost_table(measure(5)).markdown() + "\n")
