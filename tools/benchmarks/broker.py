"""Benchmark the embedded broker: throughput per core.

`python -m tools.benchmarks.broker` starts the broker as a process whose log is in a temporary
folder on disk. The broker verifies CRCs, and the producers send with acks=all and idempotence.
Rates per core are records divided by the CPU seconds of the broker's process (user and system). The
wall rate is also affected by the CPU use of the producers, which run on the same machine.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from tools.benchmarks.core.contestants import LIBRDKAFKA, OURS, Contestant, named
from tools.benchmarks.payload import RANDOM, lines_file
from tools.benchmarks.results import python
from tools.benchmarks.tables import Table

VALUE_BYTES = 100
READY = "kafkaprod broker ready on"


@contextmanager
def broker(folder: str) -> Iterator[tuple[psutil.Process, str]]:
    """Start a broker whose log is in `folder`, and yield its process and address."""
    command = python("spark_kafka_sink.cli.main", "broker", "--port", "0", "--data-dir", folder)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.startswith(READY):
                raise RuntimeError(f"the broker printed {line!r}")
            yield psutil.Process(process.pid), line.split()[-1]
        finally:
            process.kill()


def measure(contestant: Contestant, records: int) -> tuple[str, ...]:
    """Measure one producer against a new broker, and return a row of the table."""
    with tempfile.TemporaryDirectory() as folder, broker(folder) as (process, address):
        before = sum(process.cpu_times()[:2])
        warmup = records // 10
        rate = contestant.send(address, lines_file(RANDOM), records, warmup=warmup).rate
        per_core = (warmup + records) / (sum(process.cpu_times()[:2]) - before)
    rates = (rate, per_core)
    cells = ((f"{rate / 1e6:.2f}", f"{rate * VALUE_BYTES / 1e6:.0f}") for rate in rates)
    return contestant.name, *(cell for pair in cells for cell in pair)


def main() -> None:
    """Measure this sink's producer and librdkafka, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.broker", description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    records = parser.parse_args().records
    rows = [measure(producer, records) for producer in named(OURS, LIBRDKAFKA)]
    title = f"Embedded broker, {VALUE_BYTES}-byte values, log on disk"
    columns = ("producer", "M rec/s", "MB/s", "per core: M rec/s", "MB/s")
    print(Table(title, columns, rows).markdown())


if __name__ == "__main__":
    main()
