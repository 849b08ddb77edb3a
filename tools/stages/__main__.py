"""What each stage of a write costs: `python -m tools.stages [--docs]`.

Keyed events from Parquet go into a real Kafka, `local[1]` and a warm session, with the clock and
without it in turn.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

from rich.console import Console

from tools.benchmarks.payload import events_file
from tools.benchmarks.results import Table, describe, one_line
from tools.benchmarks.spark.contestants import FLIGHT, SMALL_ROWS, WarmSpark
from tools.benchmarks.topics import fresh_topic, measured_kafka
from tools.docs.pages import write_block
from tools.stages import start
from tools.stages.stages import STAGES

BLOCK = "stages"
_CHILD = "tools.stages.child"


def measure(records: int, rounds: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The answers of each round, with the clock and without."""
    found = []
    with measured_kafka() as kafka, WarmSpark(_CHILD) as spark:
        for number in range(rounds + 1):
            answers = [
                _write(spark, kafka.bootstrap_servers, records, timed=timed)
                for timed in (True, False)
            ]
            if number:  # the first one warms up
                found.append((answers[0], answers[1]))
    return found


def _write(spark: WarmSpark, servers: str, records: int, *, timed: bool) -> dict[str, Any]:
    with fresh_topic(servers, records) as topic:
        order = {
            "conf": SMALL_ROWS,
            "events": str(events_file(records)),
            "key": FLIGHT,
            "bootstrap_servers": servers,
            "topic": topic,
            "timed": timed,
        }
        answer: dict[str, Any] = spark.ask(order)
        return answer


def table(found: list[tuple[dict[str, Any], dict[str, Any]]], records: int) -> Table:
    """Microseconds a record, medians."""

    def us(values: list[float]) -> str:
        return f"{median(values) / records * 1e6:.3f}"

    rows = [("JVM", "reads Parquet, makes Arrow batches", us([a["jvm_cpu_s"] for _, a in found]))]
    for stage in STAGES:
        times = [timed["stages"].get(stage.name, 0.0) for timed, _ in found]
        rows.append((stage.thread.value, stage.name, us(times)))
    workers = us([plain["workers_cpu_s"] for _, plain in found])
    rows.append(("worker", "all of it, without the clock", workers))
    return Table(
        f"{records:,} keyed events of 131 bytes, local[1]: CPU us a record",
        ("where", "stage", "us"),
        tuple(rows),
    )


def main() -> None:
    """Measure, print, and write the page's table if it was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--docs", action="store_true", help="write docs/where-time-goes.md")
    options = parser.parse_args()
    found = measure(options.records, options.rounds)
    made = table(found, options.records)
    console = Console(width=120)
    console.print(one_line(describe()))
    workers = start.measure()
    for each in (made, workers):
        console.print(each.rich())
    if options.docs:
        tables = f"{made.markdown()}\n\n{workers.markdown()}"
        write_block(BLOCK, f"{one_line(describe())}\n\n{tables}\n")


if __name__ == "__main__":
    main()
