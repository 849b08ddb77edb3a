"""The producer core alone, without Spark: `python -m tools.benchmarks.core_ours JOB`."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_kafka_sink.config.model import ProducerConfig
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session_pool import borrow_session
from spark_kafka_sink.records.columns import Columns
from tools.benchmarks.job import Job
from tools.benchmarks.payload import read_lines
from tools.benchmarks.processes import peak_mib

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.producer.session import ProducerSession


CHUNK = 10_000
"""Rows; it divides the number of lines."""


def open_session(job: Job) -> ProducerSession:
    """A session with the job's options."""
    options = {f"kafka.{name}": value for name, value in job.options.items()}
    servers = {"kafka.bootstrap.servers": job.bootstrap_servers}
    return borrow_session(ProducerConfig.parse({**servers, **options}))


def _send(session: ProducerSession, lines: Rows, records: int) -> None:
    """Send the lines round and round, in chunks as Spark makes them."""
    for start in range(0, records, CHUNK):
        first = start % len(lines)
        session.append(lines.slice(first, first + min(CHUNK, records - start)))
    session.flush()


def run(job: Job) -> Mapping[str, float]:
    """Warm up, send, and measure from the first append to the last acknowledgement."""
    values = read_lines(job.payload)
    rows = Rows(columns=Columns(value=values), topics=(job.topic,))
    session = open_session(job)
    _send(session, rows, job.warmup)
    started, used = time.perf_counter(), time.process_time()
    _send(session, rows, job.records)
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - used
    session.close()
    return {"records": job.records, "seconds": seconds, "cpu_s": cpu_s, "peak_mib": peak_mib()}


if __name__ == "__main__":
    pa.set_cpu_count(1)
    sys.stdout.write(json.dumps(run(Job.from_json(sys.argv[1]))) + "\n")
