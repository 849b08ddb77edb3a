"""Where a batch is compressed, compared: a thread of its own, the writer's, the sender's.

The same records, codec and broker; only the thread differs. The places that the product does not
use are put in from here, round it; PLACE and JOB are the arguments of one run.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from unittest.mock import patch

import pyarrow as pa

from spark_kafka_sink.producer.buffer import compressor as compressor_module
from spark_kafka_sink.producer.buffer.accumulator import Accumulator
from spark_kafka_sink.producer.buffer.session_state import SessionState
from spark_kafka_sink.producer.send.sender import Sender
from tools.benchmarks.core import ours
from tools.benchmarks.core.contestants import BATCHES, EVENTS, SAFE
from tools.benchmarks.core.job import Job
from tools.benchmarks.payload import lines_file
from tools.benchmarks.processes import python, run_contestant
from tools.benchmarks.sample import Series, failure_notes, find
from tools.benchmarks.tables import Table
from tools.benchmarks.topics import fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from tools.benchmarks.core.measuring import CorePlan
    from tools.benchmarks.sample import Sample

_P = ParamSpec("_P")
_T = TypeVar("_T")

CODECS = ("lz4", "zstd", "snappy", "gzip")


class Place(StrEnum):
    """The thread that compresses."""

    OWN = "a thread of its own"
    WRITER = "the writer's thread"
    SENDER = "the sender's thread"


def measure(bootstrap_servers: str, plan: CorePlan, tell: Callable[[str], None]) -> list[Series]:
    """All rounds, the places in turns."""
    series = [Series(place, codec) for codec in CODECS for place in Place]
    for number in range(plan.rounds):
        for one in series:
            tell(f"codec, round {number + 1} of {plan.rounds}: {one.codec}, {one.contestant}")
            place = Place(one.contestant)
            one.add(partial(_run, place, one.codec, plan, bootstrap_servers), tell)
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
        line = python("tools.benchmarks.core.codec_place", place.name, job.to_json())
        return run_contestant(line)


class _Pending:
    """In the place of the codec's executor: batches wait until `run` compresses them."""

    def __init__(self) -> None:
        self._closed: deque[tuple[Callable[[ProducerBatch], None], ProducerBatch]] = deque()

    def submit(self, compress: Callable[[ProducerBatch], None], batch: ProducerBatch) -> None:
        """Keep a batch, as an executor does."""
        self._closed.append((compress, batch))

    def run(self) -> None:
        """Compress what has closed."""
        while self._closed:
            compress, batch = self._closed.popleft()
            compress(batch)

    def shutdown(self, **_: Any) -> None:
        """Nothing to end."""


def _put(place: Place) -> None:
    """Have sessions compress elsewhere."""
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
    """Rates and CPU; ratios are to a thread of its own with the same codec."""
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
                f"{one.slowest / 1e6:.2f} - {one.fastest / 1e6:.2f}",
                f"{one.rate / own.rate:.2f}x" if own else "-",
                f"{one.cpu_us:.3f}",
            )
        )
    columns = ("compressed in", "codec", "M rec/s", "min - max", "to its own", "CPU us/rec")
    notes = failure_notes((f"{one.contestant}, {one.codec},", one.failures) for one in series)
    return Table("Codec: where 131-byte JSON events are compressed", columns, rows, " ".join(notes))


if __name__ == "__main__":
    pa.set_cpu_count(1)
    _put(Place[sys.argv[1]])
    sys.stdout.write(json.dumps(ours.run(Job.from_json(sys.argv[2]))) + "\n")
