"""Codecs: the cost and ratio of each level, and the best thread for compressing.

The levels are measured without a broker: one thread compresses batches of 1 MiB of events, as in
the product. The threads are compared using a broker. Each run is a separate process,
`python -m tools.benchmarks.core.codec PLACE JOB`, which is patched to compress in threads that the
product does not use.
"""

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from math import inf
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.compression import compress, decompress
from spark_kafka_sink.kafka.records.encoder import encode_records, slice_records
from spark_kafka_sink.producer.buffer import batch as batch_module
from spark_kafka_sink.producer.buffer.accumulator import Accumulator
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.buffer.session_state import SessionState
from spark_kafka_sink.producer.send.sender import Sender
from tools.benchmarks import tables
from tools.benchmarks.core.contestants import Contestant, Job, run_ours
from tools.benchmarks.kafka import Plan, Workbench
from tools.benchmarks.payload import EVENTS, events, lines_file
from tools.benchmarks.results import Series, find, python, take_turns

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
            for one in packed:
                decompress(codec, one, 2 * _BATCH_BYTES)
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


CODECS = ("lz4", "zstd", "snappy", "gzip")


class Place(StrEnum):
    """The thread that compresses batches."""

    OWN = "a thread of its own"
    WRITER = "the writer's thread"
    SENDER = "the sender's thread"


def measure_places(bench: Workbench, plan: Plan) -> list[Series]:
    """Run all rounds, with the threads in turn."""
    runs = []
    for codec in CODECS:
        for place in Place:
            sink = Contestant(name=place, command=partial(_command, place))
            options = {"compression.type": codec}
            send = partial(sink.send, bench.bootstrap_servers, lines_file(EVENTS), plan.records)
            runs.append((Series(place, codec), partial(send, options)))
    return take_turns("codec", plan.rounds, runs, bench.log)


def _command(place: Place, job: Job) -> list[str]:
    return python("tools.benchmarks.core.codec", place.name, job.to_json())


class _Pending:
    """Replacement for the codec's executor. Queues batches until `run` compresses them."""

    def __init__(self) -> None:
        self._closed: deque[tuple[Callable[[ProducerBatch], None], ProducerBatch]] = deque()

    def submit(self, compress: Callable[[ProducerBatch], None], batch: ProducerBatch) -> None:
        """Queue a batch, with the interface of an executor."""
        self._closed.append((compress, batch))

    def run(self) -> None:
        """Compress the queued batches."""
        while self._closed:
            compress, batch = self._closed.popleft()
            compress(batch)

    def shutdown(self, **_: Any) -> None:
        """Do nothing, because there is no thread to shut down."""


def _put(place: Place) -> None:
    """Patch sessions to compress in the thread `place`."""
    if place is Place.OWN:
        return
    pending = _Pending()
    patch.object(batch_module, "ThreadPoolExecutor", lambda *_, **__: pending).start()
    if place is Place.SENDER:
        patch.object(Sender, "run_once", _before(pending.run, Sender.run_once)).start()
        return
    append, wait_for = Accumulator.append, SessionState.wait_for

    def append_and_compress(self: Accumulator, *chunk: Any) -> None:
        append(self, *chunk)
        pending.run()

    def compress_and_wait(self: SessionState, done: Callable[[], bool], *rest: Any) -> bool:
        pending.run()
        return wait_for(self, _before(pending.run, done), *rest)

    patch.object(Accumulator, "append", append_and_compress).start()
    patch.object(SessionState, "wait_for", compress_and_wait).start()


def _before(first: Callable[[], None], then: Callable[..., Any]) -> Callable[..., Any]:
    def run(*arguments: Any, **options: Any) -> Any:
        first()
        return then(*arguments, **options)

    return run


def codec_table(series: Sequence[Series]) -> tables.Table:
    """Return rates and CPU use. Ratios are relative to a dedicated thread with the same codec."""
    own = tables.relative("vs. own", lambda one: find(series, Place.OWN, one.codec))
    title = "Codec: where 131-byte JSON events are compressed"
    figures = (tables.RATE, tables.SPREAD, own, tables.CPU)
    return tables.series_table(
        title, (tables.contestant("compressed in"), tables.CODEC), figures, series
    )


def measure(bench: Workbench, plan: Plan) -> tables.Figures:
    """Measure the levels and the threads."""
    bench.log("codecs by level")
    costs = measure_costs(5 * plan.rounds)
    places = measure_places(bench, plan)
    samples = {"costs": costs, "places": [one.to_dict() for one in places]}
    return tables.Figures([cost_table(costs), codec_table(places)], [], samples)


if __name__ == "__main__":
    pa.set_cpu_count(1)
    _put(Place[sys.argv[1]])
    sys.stdout.write(json.dumps(run_ours(Job.from_json(sys.argv[2]))) + "\n")
