"""Measure a worker's peak memory: `python -m tools.memory [--docs]`.

Each write is one task in a new Spark session. One write sends 10 GB to a real Kafka, whose topic
retains 2 GB. The exit status is 1 if a worker uses more than 200 MB in addition to buffer.memory.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path

from spark_kafka_sink import DeliveryReport
from tools.benchmarks.kafka import MeasuredKafka
from tools.benchmarks.results import ContestantError, describe, python
from tools.benchmarks.spark.contestants import ARROW_BYTES, ARROW_ROWS, WarmSpark
from tools.docs.pages import table, write_block
from tools.support.jars import ROOT

MIB = 1 << 20
MB = 1_000_000
OVERHEAD = 200 * MB
"""Bytes that a worker may use in addition to buffer.memory."""
ARROW_BATCH = 4 * MIB
"""Value of `ARROW_BYTES` in conf/spark-defaults.conf."""
SPARKS_ARROW_BATCH = 64 * MIB
"""Spark's default."""
_ARROW_BATCHES = 2
"""Number of batches in PySpark's memory. It reads the next batch while a batch is written."""


class Broker(StrEnum):
    """The broker that receives the records."""

    KAFKA = "Kafka"
    SLOW = "slow"
    """Accepts data more slowly than Spark delivers it, so that the buffer is always full."""
    STALLING = "stalls"
    """Accepts data at full speed, but stalls for seconds at a time, so that the buffer fills."""


class Rows(StrEnum):
    """Columns of the generated rows, in addition to a value with the row number."""

    PLAIN = ""
    KEYED = "keyed"
    HEADERS = "in headers"
    """Most of a row's bytes are in its headers."""
    FIELDS = "as fields"
    """Ten columns of about 200 bytes together, including an array and a struct, instead of a value.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A write of `size` bytes in rows of `row` bytes, by one task.

    `buffer` is buffer.memory. `arrow` is the maximum size of Spark's Arrow batches in bytes.
    `options` are options of the sink. `conf` contains settings of the Spark session.
    """

    size: int
    row: int = 100
    rows: Rows = Rows.PLAIN
    partitions: int = 8
    broker: Broker = Broker.SLOW
    buffer: int = 64 * MIB
    arrow: int = ARROW_BATCH
    options: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of rows."""
        return max(1, self.size // self.row)

    @property
    def bound(self) -> int:
        """Maximum memory of the worker in bytes, including Arrow batches if they are larger."""
        return OVERHEAD + self.buffer + _ARROW_BATCHES * max(0, self.arrow - ARROW_BATCH)

    @property
    def columns(self) -> tuple[str, ...]:
        """Spark expressions of the columns; `id` is the row number."""
        number = "cast(id AS string)"
        if self.rows is Rows.HEADERS:
            entry = f"named_struct('key', 'trace', 'value', cast({_text(self.row // 4)} AS binary))"
            return f"{number} AS value", f"array_repeat({entry}, 4) AS headers"
        if self.rows is Rows.FIELDS:
            return _FIELDS
        value = f"{_text(self.row)} AS value"
        return (f"{number} AS key", value) if self.rows is Rows.KEYED else (value,)

    def __str__(self) -> str:
        row = f"{self.row:,} B" if self.row < 1_000 else f"{self.row // 1_000:,} KB"
        parts = (row, self.rows, f"{self.partitions:,} partitions", *self.options.values())
        return ", ".join(part for part in parts if part)


def _text(size: int) -> str:
    """Return a Spark expression for texts of `size` bytes, of which up to 60 are random."""
    return f"rpad(concat(id, '-', xxhash64(id), xxhash64(id, 1), xxhash64(id, 2)), {size}, '.,-')"


_FIELDS = (
    "id",
    "xxhash64(id) AS customer",
    f"{_text(60)} AS name",
    "id / 7 AS amount",
    "cast(id % 100000 / 100 AS decimal(10, 2)) AS price",
    "id % 2 = 0 AS paid",
    "timestamp_millis(id) AS at",
    "date_from_unix_date(id % 20000) AS day",
    "array(concat('tag-', id), 'second') AS tags",
    "named_struct('city', concat('city-', id % 1000), 'north', id / 3, 'east', id / 9) AS place",
)
_ZSTD = {"kafka.compression.type": "zstd"}
_JSON, _AVRO = {"value.format": "json"}, {"value.format": "avro"}
_GB = 1_000 * MB
_LARGEST = 1_048_000
"""Size in bytes of the largest row that the default max.request.size allows."""
CASES = (
    Case(size=10 * _GB, broker=Broker.KAFKA),
    Case(size=2 * _GB, broker=Broker.STALLING),
    Case(size=_GB, rows=Rows.KEYED, partitions=1_000),
    Case(size=2 * _GB, broker=Broker.STALLING, options=_ZSTD),
    Case(size=_GB, row=2_000, rows=Rows.HEADERS),
    Case(size=_GB, row=60_000, broker=Broker.KAFKA),
    Case(size=2 * _GB, row=60_000, broker=Broker.STALLING),
    Case(size=2 * _GB, row=60_000, rows=Rows.KEYED, partitions=1_000),
    Case(size=2 * _GB, row=60_000, broker=Broker.STALLING, options=_ZSTD),
    Case(size=_GB, row=60_000, rows=Rows.HEADERS),
    Case(size=2 * _GB, row=_LARGEST, broker=Broker.STALLING),
    Case(size=2 * _GB, row=60_000, broker=Broker.STALLING, buffer=128 * MIB),
    Case(size=2 * _GB, row=60_000, broker=Broker.STALLING, arrow=SPARKS_ARROW_BATCH),
    Case(size=_GB, row=200, rows=Rows.FIELDS, broker=Broker.STALLING, options=_JSON),
    Case(size=_GB, row=200, rows=Rows.FIELDS, broker=Broker.STALLING, options=_AVRO),
    Case(size=200 * MB, row=24, conf={ARROW_ROWS: "0"}),
)


SLOW_RATE = 60 * MB
"""Bytes per second that the slow broker accepts."""
_FAST_RATE = 2_000 * MB
_RUNS_FOR, _STALLS_FOR = 2.0, 4.0
"""Seconds for which the stalling broker accepts records, and seconds for which it stalls."""
_KEPT = 2_000 * MB
"""Size limit of a topic of a real Kafka in bytes; older records are deleted."""
TOPIC = "memory"


@contextmanager
def broker_for(case: Case) -> Iterator[str]:
    """Yield the bootstrap servers for a write to `TOPIC`."""
    if case.broker is Broker.KAFKA:
        # The topic retains only the latest segments.
        kept = _KEPT // case.partitions
        limits = {"retention.bytes": str(kept), "segment.bytes": str(max(case.row, kept // 4))}
        with MeasuredKafka({"log.retention.check.interval.ms": "1000"}) as kafka:
            kafka.admin.create_topic(TOPIC, case.partitions, configs=limits)
            yield kafka.bootstrap_servers
        return
    rate = SLOW_RATE if case.broker is Broker.SLOW else _FAST_RATE
    command = python("tools.support.slow_broker", str(case.partitions), str(rate))
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        over = threading.Event()
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            if case.broker is Broker.STALLING:
                threading.Thread(target=_stall, args=(process, over), daemon=True).start()
            yield f"127.0.0.1:{port}"
        finally:
            over.set()
            process.kill()


def _stall(process: subprocess.Popen[str], over: threading.Event) -> None:
    """Alternately run and pause the broker."""
    while not over.wait(_RUNS_FOR):
        process.send_signal(signal.SIGSTOP)
        over.wait(_STALLS_FOR)
        process.send_signal(signal.SIGCONT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The worker's peak memory in bytes: after a write of one row, and after the measured write."""

    idle: int
    peak: int


def measure(case: Case) -> Reading:
    """Write the rows of a case, and return the worker's peak memory.

    The first write has one row, so that the worker imports all modules. Spark reuses the worker for
    the second write.

    Raises:
        ContestantError: Spark failed, or some rows were not acknowledged.
    """
    with (
        broker_for(case) as servers,
        tempfile.TemporaryDirectory() as folder,
        WarmSpark(hidden=[str(_HIDDEN)], conf=dict(case.conf)) as spark,
    ):
        options = {
            "kafka.bootstrap.servers": servers,
            "topic": TOPIC,
            "kafka.buffer.memory": str(case.buffer),
            "reportPath": f"{folder}/report.json",
            **case.options,
        }
        conf = {ARROW_BYTES: str(case.arrow), **case.conf}
        write = partial(spark.write, "kafkaprod", options, select=case.columns, conf=conf)
        idle, peak = (
            int(write(rows, timeout_s=_LONGEST_S).peak_mib * MIB) for rows in (1, case.count)
        )
        persisted = DeliveryReport.read(options["reportPath"]).persisted
    if persisted != case.count:
        raise ContestantError(f"{case}: {persisted:,} of {case.count:,} rows are persisted")
    return Reading(idle=idle, peak=peak)


_HIDDEN = Path(__file__).parent / "installation"
_LONGEST_S = 1_800
HEADING = (
    "rows",
    "written, MB",
    "broker",
    "`buffer.memory`, MiB",
    "maximum Arrow batch, MiB",
    "idle, MB",
    "peak, MB",
    "limit, MB",
    "",
)


def row(case: Case, reading: Reading) -> tuple[str, ...]:
    """Return the table cells of a case."""
    return (
        str(case),
        f"{case.size // MB:,}",
        case.broker,
        f"{case.buffer // MIB}",
        f"{case.arrow // MIB}",
        f"{reading.idle / MB:,.0f}",
        f"{reading.peak / MB:,.0f}",
        f"{case.bound / MB:,.0f}",
        "within" if reading.peak <= case.bound else "**over**",
    )


def main() -> int:
    """Measure all cases and print the results; with --docs, update the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true", help="write the table into docs/memory.md")
    options = parser.parse_args()
    machine = describe()
    readings = []
    for case in CASES:
        readings.append((case, measure(case)))
        print(" | ".join(row(*readings[-1])), flush=True)
    text = f"{machine}\n\n{table(HEADING, [row(*each) for each in readings])}"
    print(text)
    if options.docs:
        write_block("memory", text)
    return int(any(reading.peak > case.bound for case, reading in readings))


if __name__ == "__main__":
    sys.exit(main())
