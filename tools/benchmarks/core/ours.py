"""The producer core alone, without Spark: `python -m tools.benchmarks.core.ours JOB`."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.config.model import ProducerConfig
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session import borrow_session
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.encoder import encode_headers
from tools.benchmarks.core.job import Job, Kind
from tools.benchmarks.payload import read_lines
from tools.benchmarks.processes import peak_mib

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.producer.session import ProducerSession


CHUNK = 10_000
"""Rows, or as many as there are lines left."""
_FLIGHT = slice(10, 14)
"""Where an event has the number of its flight, the key."""
_HEADERS = [{"key": b"source", "value": b"benchmark"}, {"key": b"schema", "value": b"flight-7"}]


@dataclass(frozen=True, slots=True)
class _Lines:
    """What is sent; the headers are encoded chunk by chunk, as in a Spark task."""

    rows: Rows
    headers: pa.ListArray[Any] | None

    def chunk(self, start: int, count: int) -> Rows:
        """So many rows from one on."""
        rows = self.rows.slice(start, start + count)
        if self.headers is None:
            return rows
        encoded = encode_headers(self.headers.slice(start, count))
        return replace(rows, columns=replace(rows.columns, headers=encoded))


def open_session(job: Job) -> ProducerSession:
    """A session with the job's options."""
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
    """Send the lines round and round, in chunks as Spark makes them."""
    sent, lines_count = 0, len(lines.rows)
    while sent < records:
        first = sent % lines_count
        count = min(CHUNK, lines_count - first, records - sent)
        session.append(lines.chunk(first, count))
        sent += count
    session.flush()


def run(job: Job) -> Mapping[str, float]:
    """Warm up, send, and measure from the first append to the last acknowledgement."""
    lines, session = _lines(job), open_session(job)
    _send(session, lines, job.warmup)
    started, used = time.perf_counter(), time.process_time()
    _send(session, lines, job.records)
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - used
    session.close()
    return {"records": job.records, "seconds": seconds, "cpu_s": cpu_s, "peak_mib": peak_mib()}


if __name__ == "__main__":
    pa.set_cpu_count(1)
    sys.stdout.write(json.dumps(run(Job.from_json(sys.argv[1]))) + "\n")
