"""What partitions cost: `python -m tools.benchmarks.many_partitions [--records N] [--rounds N]`.

The same keyed events go to topics of 8, 100 and 1,000 partitions, from this sink and from Spark's
own, in turn; on a real Kafka. A first write makes the log files of a topic's partitions, and is not
measured.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from rich.console import Console
from rich.table import Table

from tools.benchmarks.machine import describe, one_line
from tools.benchmarks.payload import events_file
from tools.benchmarks.sample import Series
from tools.benchmarks.spark import CONTESTANTS, JVM, OURS, SparkContestant, WarmSpark
from tools.benchmarks.topics import fresh_topic, measured_kafka

PARTITIONS = (8, 100, 1_000)
_KEY = "substring(value, 12, 4)"
"""The flight's number: 9,000 keys."""
_WRITERS = tuple(each for each in CONTESTANTS if each.name in {OURS, JVM})


def measure(bootstrap_servers: str, records: int, rounds: int) -> dict[tuple[str, int], Series]:
    """The rounds of each writer with each number of partitions."""
    series = {
        (each.name, partitions): Series(each.name, "none")
        for each in _WRITERS
        for partitions in PARTITIONS
    }
    with ExitStack() as stack:
        sparks = {each.name: stack.enter_context(WarmSpark()) for each in _WRITERS}
        for _ in range(rounds):
            for partitions in PARTITIONS:
                for each in _WRITERS:
                    found = series[each.name, partitions]
                    _write_twice(
                        sparks[each.name], each, bootstrap_servers, records, partitions, found
                    )
    return series


def _write_twice(
    spark: WarmSpark,
    contestant: SparkContestant,
    bootstrap_servers: str,
    records: int,
    partitions: int,
    series: Series,
) -> None:
    with fresh_topic(bootstrap_servers, 2 * records, partitions=partitions) as topic:
        order = {
            "writer": contestant.writer,
            "topic": topic,
            "options": {"bootstrap.servers": bootstrap_servers, **contestant.options},
            "events": str(events_file(records)),
            "records": records,
            "recommended_conf": True,
            "key": _KEY,
        }
        spark.order(order)
        series.samples.append(spark.order(order))


def main() -> None:
    """Measure and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with measured_kafka() as kafka:
        series = measure(kafka.bootstrap_servers, options.records, options.rounds)
    table = Table("sink", "partitions", "M rec/s", "CPU us/rec")
    for (name, partitions), each in series.items():
        table.add_row(name, f"{partitions:,}", f"{each.rate / 1e6:.2f}", f"{each.cpu_us:.2f}")
    console = Console(width=120)
    console.print(one_line(describe()))
    console.print(f"{options.records:,} keyed events a write, local[1]; medians", table)


if __name__ == "__main__":
    main()
