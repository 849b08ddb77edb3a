"""The producers that the benchmarks of the core run, each in a process, and their jobs.

They are this project's core, Kafka's ProducerPerformance, and librdkafka in C, which is part of
confluent-kafka. `python -m tools.benchmarks.core.contestants java|ours JOB` runs a job.
`librdkafka_bench.c` requires a C compiler, but no headers.

At a fixed rate, a burst of rows is scheduled every few milliseconds. Consecutive bursts go to
consecutive partitions. Latency is measured from a record's scheduled time to its acknowledgement,
so it includes the time during which a producer blocks or falls behind. The option `bench.rate` is
an option of the benchmark, as in `librdkafka_bench.c`.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_encoder import encode_headers
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.producer.session_pool import borrow_session
from tools.benchmarks.kafka import PARTITIONS, new_topics
from tools.benchmarks.payload import FOLDER, read_lines
from tools.benchmarks.results import Sample, peak_mib, python, run_contestant, tree_cpu_s
from tools.support.java import Jvm, kafka_jvm

_OPTIONS = ["-server", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
"""JVM options of kafka-producer-perf-test.sh and kafka-run-class.sh."""
SOURCE = Path(__file__).with_name("librdkafka_bench.c")
SAFE = {"acks": "all", "enable.idempotence": "true"}
BATCHES = {"batch.size": "1048576", "linger.ms": "50"}
LIBRDKAFKA_QUEUE = {
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "1048576",
    "batch.num.messages": "100000",
}
_MODULE = "tools.benchmarks.core.contestants"
OURS, LIBRDKAFKA = "kafkaprod core", "librdkafka in C"
JAVA_DEFAULTS, JAVA = "Java, defaults", "Java, 1 MiB batches"
CHUNK = 10_000
"""Number of rows per chunk. The last chunk of the lines can be smaller."""
_FLIGHT = slice(10, 14)
"""Position in an event of the flight number, which is used as the key."""
_HEADERS = [{"key": b"source", "value": b"benchmark"}, {"key": b"schema", "value": b"flight-7"}]
RATE = "bench.rate"
"""Option: records per second."""
BURST_MS = 5


class Kind(StrEnum):
    """Kind of record: plain, with a key, or with a key and two headers."""

    PLAIN = "null keys"
    KEYED = "keyed"
    HEADERS = "keyed, two headers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Send `warmup` records and `records` measured records from the lines of a payload file.

    `options` are settings of the producer, with the producer's own names. Only the core supports
    kinds other than plain records.
    """

    bootstrap_servers: str
    topic: str
    payload: Path
    warmup: int
    records: int
    options: Mapping[str, str] = field(default_factory=dict)
    kind: Kind = Kind.PLAIN

    def to_json(self) -> str:
        """Serialize the job for a command line."""
        return json.dumps({**asdict(self), "payload": str(self.payload)})

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Parse the output of `to_json`."""
        job = cls(**json.loads(text))
        return replace(job, payload=Path(job.payload), kind=Kind(job.kind))


def run_java(job: Job) -> Mapping[str, float]:
    """Run ProducerPerformance twice in one JVM: a warm-up and the measured run.

    The start of the JVM and its first compilations are not measured.
    """
    with kafka_jvm(_OPTIONS) as jvm:
        _send(jvm, job, job.warmup)
        started, used = time.perf_counter(), tree_cpu_s(jvm.process_id)
        _send(jvm, job, job.records)
        seconds, total = time.perf_counter() - started, tree_cpu_s(jvm.process_id)
        figures = {"seconds": seconds, "cpu_s": total - used, "total_cpu_s": total}
        return {"records": job.records, "peak_mib": peak_mib(jvm.process_id), **figures}


def _send(jvm: Jvm, job: Job, records: int) -> None:
    line = ["--bootstrap-server", job.bootstrap_servers, "--topic", job.topic]
    line += ["--num-records", str(records), "--throughput", "-1"]
    line += ["--payload-file", str(job.payload), "--reporting-interval", "600000"]
    for name, value in job.options.items():
        line += ["--command-property", f"{name}={value}"]
    arguments = jvm.array(jvm.packages.String, line)
    jvm.packages.org.apache.kafka.tools.ProducerPerformance.main(arguments)


def librdkafka_command(job: Job) -> list[str]:
    """Return the command line that runs a job."""
    settings = {"bootstrap.servers": job.bootstrap_servers, **job.options}
    arguments = [job.topic, str(job.payload), str(job.warmup), str(job.records)]
    options = (f"{name}={value}" for name, value in settings.items())
    return [str(build_librdkafka()), str(_library()), *arguments, *options]


def build_librdkafka() -> Path:
    """Return the path of the program. Compile it if it is missing or older than its source."""
    program = FOLDER / SOURCE.stem
    if program.exists() and program.stat().st_mtime >= SOURCE.stat().st_mtime:
        return program
    FOLDER.mkdir(parents=True, exist_ok=True)
    line = ["cc", "-O2", "-Wall", "-o", str(program), str(SOURCE), "-ldl"]
    subprocess.run(line, check=True)
    return program


def _library() -> Path:
    spec = importlib.util.find_spec("confluent_kafka")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    folders = (package.with_name("confluent_kafka.libs"), package / ".dylibs")
    return next(path for folder in folders for path in folder.glob("librdkafka*"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A producer and its settings."""

    name: str
    command: Callable[[Job], list[str]]
    options: Mapping[str, str] = field(default_factory=lambda: {**SAFE, **BATCHES})

    def send(
        self,
        bootstrap_servers: str,
        payload: Path,
        records: int,
        options: Mapping[str, str] | None = None,
        *,
        warmup: int = 0,
        kind: Kind = Kind.PLAIN,
    ) -> Sample:
        """Send the records of a file to a new topic, after a warm-up with an eighth of them.

        `options` replace the contestant's. `bootstrap.servers` can be another listener.
        """
        warmup = warmup or records // 8
        settings = {"bootstrap.servers": bootstrap_servers, **self.options, **(options or {})}
        with new_topics(bootstrap_servers, warmup + records) as (topic,):
            job = Job(
                bootstrap_servers=settings.pop("bootstrap.servers"),
                topic=topic,
                payload=payload,
                warmup=warmup,
                records=records,
                options=settings,
                kind=kind,
            )
            return run_contestant(self.command(job))


SINK = Contestant(name=OURS, command=lambda job: python(_MODULE, "ours", job.to_json()))


def _java(job: Job) -> list[str]:
    return python(_MODULE, "java", job.to_json())


CONTESTANTS = (
    SINK,
    Contestant(
        name=LIBRDKAFKA, command=librdkafka_command, options={**SAFE, **BATCHES, **LIBRDKAFKA_QUEUE}
    ),
    Contestant(name=JAVA, command=_java),
    Contestant(name=JAVA_DEFAULTS, command=_java, options=SAFE),
)


def named(*names: str) -> list[Contestant]:
    """Return the contestants with these names."""
    return [contestant for contestant in CONTESTANTS if contestant.name in names]


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


def _send_lines(session: ProducerSession, lines: _Lines, records: int) -> None:
    """Send the lines in a loop, in chunks of the size that Spark uses."""
    sent, lines_count = 0, len(lines.rows)
    while sent < records:
        first = sent % lines_count
        count = min(CHUNK, lines_count - first, records - sent)
        session.append(lines.chunk(first, count))
        sent += count
    session.flush()


@dataclass(slots=True)
class Watch:
    """Unacknowledged bursts of each partition, and the latencies of acknowledged records."""

    due: defaultdict[int, deque[list[float]]] = field(default_factory=lambda: defaultdict(deque))
    waits: list[tuple[float, int]] = field(default_factory=list)
    """Pairs of a latency in seconds and the number of records with this latency."""

    def settled(self, batch: ProducerBatch) -> None:
        """Record the acknowledgement of a batch with the oldest records of its partition."""
        now, left = time.monotonic(), batch.records
        owed = self.due[batch.topic_partition.partition]
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
        quantiles = {
            name: seconds[order][np.searchsorted(reached, q)]
            for name, q in (("p50_us", 50), ("p99_us", 99), ("p999_us", 99.9), ("max_us", 100))
        }
        return {name: int(value * 1e6) for name, value in quantiles.items()}


def _watch(session: ProducerSession, watch: Watch) -> None:
    """Patch the session to report each acknowledged batch. The product has no hook for this."""
    accumulator = session.buffer.accumulator
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


def run_ours(job: Job) -> Mapping[str, float]:
    """Warm up, send, and measure from the first append to the last acknowledgement."""
    options = {name: value for name, value in job.options.items() if name != RATE}
    session = open_session(replace(job, options=options))
    watch = Watch()
    if RATE in job.options:
        rows = Rows(columns=Columns(value=read_lines(job.payload)), topics=(job.topic,))
        _watch(session, watch)
        send = partial(_send_at_rate, session, rows, watch, rate=int(job.options[RATE]))
    else:
        send = partial(_send_lines, session, _lines(job))
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
    figures = {"java": run_java, "ours": run_ours}[sys.argv[1]](Job.from_json(sys.argv[2]))
    sys.stdout.write(json.dumps(figures) + "\n")
