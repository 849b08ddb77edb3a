"""Codecs: the cost and ratio of each level, and the best thread for compressing.

The levels are measured without a broker: one thread compresses batches of 1 MiB of events, as in
the product. The threads are compared using a broker. Each run is a separate process,
`python -m tools.benchmarks.core.codec PLACE JOB`, which is patched to compress in threads that the
product does not use.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.producer.buffer import compressor as compressor_module
from spark_kafka_sink.producer.buffer.accumulator import Accumulator
from spark_kafka_sink.producer.buffer.session_state import SessionState
from spark_kafka_sink.producer.send.sender import Sender
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.compression import compress, decompress
from spark_kafka_sink.records.encoder import encode_records, slice_records
from tools.benchmarks.core import ours
from tools.benchmarks.core.contestants import BATCHES, EVENTS, SAFE
from tools.benchmarks.core.job import Job
from tools.benchmarks.payload import events, lines_file
from tools.benchmarks.processes import python, run_contestant
from tools.benchmarks.results import Series, Table, failure_notes, find, spread
from tools.benchmarks.topics import fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from tools.benchmarks.core.rates import CorePlan
    from tools.benchmarks.results import Sample, Target


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecCost:
    """Results of one codec at one level. CPU times are the best of all rounds."""

    codec: str
    level: str
    ratio: float
    """Ratio of uncompressed to compressed bytes."""
    us_per_record: float
    mb_per_s: float
    """Uncompressed megabytes per CPU second."""
    decompress_mb_per_s: float


def measure_costs(rounds: int) -> list[CodecCost]:
    """Measure all codecs in turn, `rounds` times."""
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
    """Return a table with a row for each codec and level."""
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
    title = "Codecs and levels: cost and savings, 131-byte JSON events in batches of 1 MiB"
    return Table(title, columns, rows)


def _payload(seed: int) -> bytes:
    """Return the records section of a batch."""
    values = cast("pa.BinaryArray", events(_ROWS, seed).cast(pa.binary()))
    columns = Columns(value=values, key=None, headers=None)
    encoded = encode_records(columns, np.arange(_ROWS, dtype=np.int32))
    payload = bytes(slice_records(encoded, 0, _ROWS))
    assert len(payload) <= _BATCH_BYTES
    return payload


_P = ParamSpec("_P")
_T = TypeVar("_T")

CODECS = ("lz4", "zstd", "snappy", "gzip")


class Place(StrEnum):
    """The thread that compresses batches."""

    OWN = "a thread of its own"
    WRITER = "the writer's thread"
    SENDER = "the sender's thread"


def measure_places(
    bootstrap_servers: str, plan: CorePlan, log: Callable[[str], None]
) -> list[Series]:
    """Run all rounds, with the threads in turn."""
    series = [Series(place, codec) for codec in CODECS for place in Place]
    for number in range(plan.rounds):
        for one in series:
            log(f"codec, round {number + 1} of {plan.rounds}: {one.codec}, {one.contestant}")
            place = Place(one.contestant)
            one.add(partial(_run, place, one.codec, plan, bootstrap_servers), log)
    return series


def _run(place: Place, codec: str, plan: CorePlan, bootstrap_servers: str) -> Sample:
    with fresh_topic(bootstrap_servers, plan.warmup + plan.records) as topic:
        job = Job(
            bootstrap_servers=bootstrap_servers,
            topic=topic,
            payload=lines_file(EVENTS),
            warmup=plan.warmup,
            records=plan.records,
            options={**SAFE, **BATCHES, "compression.type": codec},
        )
        line = python("tools.benchmarks.core.codec", place.name, job.to_json())
        return run_contestant(line)


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
    patch.object(compressor_module, "ThreadPoolExecutor", lambda *_, **__: pending).start()
    if place is Place.SENDER:
        patch.object(Sender, "run_once", _before(pending.run, Sender.run_once)).start()
        return
    append, wait_for = Accumulator.append, SessionState.wait_for

    def append_and_compress(self: Accumulator, *chunk: Any) -> None:
        append(self, *chunk)
        pending.run()

    def compress_and_wait(
        self: SessionState, done: Callable[[], bool], timeout: float | None
    ) -> bool:
        pending.run()
        return wait_for(self, _before(pending.run, done), timeout)

    patch.object(Accumulator, "append", append_and_compress).start()
    patch.object(SessionState, "wait_for", compress_and_wait).start()


def _before(first: Callable[[], None], then: Callable[_P, _T]) -> Callable[_P, _T]:
    def run(*arguments: _P.args, **options: _P.kwargs) -> _T:
        first()
        return then(*arguments, **options)

    return run


def codec_table(series: Sequence[Series]) -> Table:
    """Return rates and CPU use. Ratios are relative to a dedicated thread with the same codec."""
    rows = []
    for one in series:
        if not one.samples:
            rows.append((one.contestant, one.codec, "failed", "-", "-", "-"))
            continue
        own = find(series, Place.OWN, one.codec)
        rows.append(
            (
                one.contestant,
                one.codec,
                f"{one.rate / 1e6:.2f}",
                spread(one),
                f"{one.rate / own.rate:.2f}x" if own else "-",
                f"{one.cpu_us:.3f}",
            )
        )
    columns = ("compressed in", "codec", "M rec/s", "min - max", "to its own", "CPU us/rec")
    notes = failure_notes((f"{one.contestant}, {one.codec},", one.failures) for one in series)
    return Table("Codec: where 131-byte JSON events are compressed", columns, rows, " ".join(notes))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecPlan:
    """Number of rounds for the levels, and the plan for comparing threads."""

    cost_rounds: int
    places: CorePlan


@dataclass(frozen=True, slots=True)
class CodecFigures:
    """CPU time of each compression level, and rates with compression in different threads."""

    costs: Sequence[CodecCost]
    places: Sequence[Series]

    def tables(self) -> list[Table]:
        """Return one table for the levels and one for the threads."""
        return [cost_table(self.costs), codec_table(self.places)]

    def targets(self) -> list[Target]:
        """Return no targets."""
        return []

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return {
            "costs": [asdict(cost) for cost in self.costs],
            "places": [one.to_dict() for one in self.places],
        }


def measure(bootstrap_servers: str, plan: CodecPlan, log: Callable[[str], None]) -> CodecFigures:
    """Measure the levels and the threads."""
    log("codecs by level")
    costs = measure_costs(plan.cost_rounds)
    return CodecFigures(costs, measure_places(bootstrap_servers, plan.places, log))


if __name__ == "__main__":
    pa.set_cpu_count(1)
    _put(Place[sys.argv[1]])
    sys.stdout.write(json.dumps(ours.run(Job.from_json(sys.argv[2]))) + "\n")
