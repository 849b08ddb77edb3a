"""What one core of the embedded broker takes: `python -m tools.benchmarks.broker [--memory]`.

The broker is a process of its own, its log on disk (a temporary folder), CRC checked, acks=all and
idempotence. Per core means: records over the CPU seconds that the broker's process used, user and
system; the wall rate also holds what the producers cost where they share its cores.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import psutil
from rich.console import Console
from rich.table import Table

from tools.benchmarks.core.contestants import CONTESTANTS, LIBRDKAFKA, OURS, RANDOM, Contestant
from tools.benchmarks.core.job import Job
from tools.benchmarks.payload import lines_file
from tools.benchmarks.processes import python

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUE_BYTES = 100
RAW = "raw requests"
READY = "kafkaprod broker ready on"
PARTITIONS = 4
MB = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What the broker took from one producer."""

    producer: str
    records: int
    wall_rate: float
    broker_cpu_s: float

    @property
    def per_core(self) -> float:
        """Records a second of the broker's CPU."""
        return self.records / self.broker_cpu_s

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        return (
            self.producer,
            f"{self.wall_rate / 1e6:.2f}",
            f"{self.wall_rate * VALUE_BYTES / MB:.0f}",
            f"{self.per_core / 1e6:.2f}",
            f"{self.per_core * VALUE_BYTES / MB:.0f}",
        )


@contextmanager
def broker(folder: str | None) -> Iterator[tuple[psutil.Process, str]]:
    """A broker on `folder`, or in memory: its process and its address."""
    options = ["--port", "0"] + (["--data-dir", folder] if folder else [])
    command = python("spark_kafka_sink.cli.main", "broker", *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.startswith(READY):
                raise RuntimeError(f"the broker said {line!r}")
            yield psutil.Process(process.pid), line.split()[-1]
        finally:
            process.kill()


def contestants() -> list[Contestant]:
    """Pre-built requests, then our producer and librdkafka with batches of up to 1 MiB."""
    chosen = [one for one in CONTESTANTS if one.name in {OURS, LIBRDKAFKA}]
    raw = Contestant(
        name=RAW, command=lambda job: python("tools.benchmarks.broker.raw", job.to_json())
    )
    return [raw, *(replace(one) for one in chosen)]


def measure(contestant: Contestant, records: int, *, in_memory: bool) -> Taken:
    """One producer against a fresh broker."""
    folder = None if in_memory else tempfile.mkdtemp(prefix="kafkaprod-bench-")
    try:
        with broker(folder) as (process, address):
            job = Job(
                bootstrap_servers=address,
                topic="bench",
                payload=lines_file(RANDOM),
                warmup=records // 10,
                records=records,
                options=contestant.options,
            )
            before = sum(process.cpu_times()[:2])
            sample = contestant.run(job)
            used = sum(process.cpu_times()[:2]) - before
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    return Taken(
        producer=contestant.name,
        records=job.warmup + job.records,
        wall_rate=sample.rate,
        broker_cpu_s=used,
    )


def main() -> None:
    """Measure every producer and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.broker", description=__doc__)
    parser.add_argument("--memory", action="store_true", help="the log in memory, not on disk")
    parser.add_argument("--records", type=int, default=3_000_000)
    arguments = parser.parse_args()
    where = "memory" if arguments.memory else "disk"
    table = Table(title=f"Embedded broker, {VALUE_BYTES}-byte values, log in {where}")
    for name in ("producer", "M rec/s", "MB/s", "per core: M rec/s", "MB/s"):
        table.add_column(name, justify="left" if name == "producer" else "right")
    for contestant in contestants():
        table.add_row(*measure(contestant, arguments.records, in_memory=arguments.memory).cells())
    Console(file=sys.stdout, width=100).print(table)


if __name__ == "__main__":
    main()
