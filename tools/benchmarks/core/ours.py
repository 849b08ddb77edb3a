"""Run the core without Spark, at full speed or at a fixed rate: `...core.ours JOB`.

At a fixed rate, a burst of rows is scheduled every few milliseconds. Consecutive bursts go to
consecutive partitions. Latency is measured from a record's scheduled time to its acknowledgement,
so it includes the time during which a producer blocks or falls behind. The option `bench.rate` is
an option of the benchmark, as in `librdkafka_bench.c`.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.config.model import ProducerConfig
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.error_tolerance import Rows
from spark_kafka_sink.producer.session import ProducerSession, borrow_session
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.encoder import encode_headers
from tools.benchmarks.core.contestants import Job, Kind
from tools.benchmarks.kafka import PARTITIONS
from tools.benchmarks.payload import read_lines
from tools.benchmarks.results import peak_mib

CHUNK = 10_000
"""Number of rows per chunk. The last chunk of the lines can be smaller."""
_FLIGHT = slice(10, 14)
"""Position in an event of the flight number, which is used as the key."""
_HEADERS = [{"key": b"source", "value": b"benchmark"}, {"key": b"schema", "value": b"flight-7"}]


@dataclass(frozen=True, slots=True)
class _Lines:
    """The records to send. Headers are encoded per chunk, as in a Spark task."""

    rows: Rows
    headers: pa.ListArray[Any] | None

    def chunk(self, start: int, count: int) -> Rows:
        """Return a chunk of `count` rows, starting with the row `start`."""
        rows = self.rows.slice(start, start + count)
        if self.headers is None:
            return rows
        encoded = encode_headers(self.headers.slice(start, count))
        return replace(rows, columns=replace(rows.columns, headers=encoded))


def open_session(job: Job) -> ProducerSession:
    """Return a session with the job's options."""
    options = {f"kafka.{name}": value for name, value in job.options.items()}
    servers = {"kafka.bootstrap.servers": job.bootstrap_servers}
    return borrow_session(ProducerConfig.parse({**servers, **options}))


def _lines(job: Job) -> _Lines:
    values = read_lines(job.payload)
    key = headers = None
    if job.kind is not Kind.PLAIN:
        key = pc.binary_slice(values, _FLIGHT.start, _FLIGHT.stop)
    if job.kind is Kind.HEADERS:
        entry = pa.struct([("key", pa.binary()), ("value", pa.binary())])
        headers = cast("pa.ListArray[Any]", pa.array([_HEADERS] * len(values), pa.list_(entry)))
    return _Lines(Rows(columns=Columns(value=values, key=key), topics=(job.topic,)), headers)


def _send(session: ProducerSession, lines: _Lines, records: int) -> None:
    """Send the lines in a loop, in chunks of the size that Spark uses."""
    sent, lines_count = 0, len(lines.rows)
    while sent < records:
        first = sent % lines_count
        count = min(CHUNK, lines_count - first, records - sent)
        session.append(lines.chunk(first, count))
        sent += count
    session.flush()


RATE = "bench.rate"
"""Option: records per second."""
BURST_MS = 5


@dataclass(slots=True)
class Watch:
    """Unacknowledged bursts of each partition, and the latencies of acknowledged records."""

    due: defaultdict[int, deque[list[float]]] = field(default_factory=lambda: defaultdict(deque))
    waits: list[tuple[float, int]] = field(default_factory=list)
    """Pairs of a latency in seconds and the number of records with this latency."""

    def settled(self, batch: ProducerBatch) -> None:
        """Record the acknowledgement of a batch with the oldest records of its partition."""
        now, left = time.monotonic(), batch.records
        owed = self.due[batch.partition.partition]
        while left:
            moment, records = owed[0]
            taken = min(left, int(records))
            self.waits.append((now - moment, taken))
            left, owed[0][1] = left - taken, records - taken
            if not owed[0][1]:
                owed.popleft()

    def percentiles(self) -> dict[str, int]:
        """Return latency percentiles in microseconds, or nothing without a fixed rate."""
        if not self.waits:
            return {}
        seconds, records = (np.array(column) for column in zip(*self.waits, strict=True))
        order = np.argsort(seconds)
        reached = np.cumsum(records[order]) / records.sum() * 100
        found = {
            name: seconds[order][np.searchsorted(reached, q)]
            for name, q in (("p50_us", 50), ("p99_us", 99), ("p999_us", 99.9), ("max_us", 100))
        }
        return {name: int(value * 1e6) for name, value in found.items()}


def _watch(session: ProducerSession, watch: Watch) -> None:
    """Patch the session to report each acknowledged batch. The product has no hook for this."""
    accumulator = session._accumulator
    settle = accumulator.complete

    def settled(batch: ProducerBatch) -> None:
        settle(batch)
        watch.settled(batch)

    accumulator.complete = settled  # type: ignore[method-assign]


def _send_at_rate(
    session: ProducerSession, rows: Rows, watch: Watch, records: int, rate: int
) -> None:
    burst = rate * BURST_MS // 1000
    places = [pa.array(np.full(burst, number), pa.int32()) for number in range(PARTITIONS)]
    start, sent = time.monotonic(), 0
    for number in range(-(-records // burst)):
        due = start + number * BURST_MS / 1000
        time.sleep(max(0.0, due - time.monotonic()))
        count, first = min(burst, records - sent), sent % (len(rows) - burst)
        partition = number % PARTITIONS
        watch.due[partition].append([due, count])
        chunk = rows.slice(first, first + count)
        session.append(replace(chunk, partition=places[partition].slice(0, count)))
        sent += count
    session.flush()


def run(job: Job) -> Mapping[str, float]:
    """Warm up, send, and measure from the first append to the last acknowledgement."""
    options = {name: value for name, value in job.options.items() if name != RATE}
    session = open_session(replace(job, options=options))
    watch = Watch()
    if RATE in job.options:
        rows = Rows(columns=Columns(value=read_lines(job.payload)), topics=(job.topic,))
        _watch(session, watch)
        send = partial(_send_at_rate, session, rows, watch, rate=int(job.options[RATE]))
    else:
        send = partial(_send, session, _lines(job))
    send(records=job.warmup)
    watch.waits.clear()
    started, used = time.perf_counter(), time.process_time()
    send(records=job.records)
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - used
    session.close()
    sizes = {"records": job.records, "seconds": seconds, "cpu_s": cpu_s, "peak_mib": peak_mib()}
    return {**watch.percentiles(), **sizes}


if __name__ == "__main__":
    pa.set_cpu_count(1)
    sys.stdout.write(json.dumps(run(Job.from_json(sys.argv[1]))) + "\n")
