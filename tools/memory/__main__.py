"""Measure a worker's peak memory: `python -m tools.memory [--scale N] [--docs]`.

Each write is one task in a new Spark; 10 GB go to a real Kafka, whose topic keeps 2 GB. Exits with
status 1 if a worker used more than 200 MB besides buffer.memory.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from tools.benchmarks.results import describe, one_line
from tools.docs.pages import write_block
from tools.memory.run import CASES, HEADING, measure, render, row

BLOCK = "memory"


def main() -> int:
    """Measure, print, and with --docs write the page's table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="write so many times the bytes")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/")
    options = parser.parse_args()
    console = Console(width=140)
    console.print(one_line(describe()))
    readings = []
    for case in (replace(each, size=int(each.size * options.scale)) for each in CASES):
        reading = measure(case)
        readings.append((case, reading))
        console.print(f"{case}, {case.broker}: peak {reading.peak / 1e6:,.0f} MB", highlight=False)
    table = Table(*(heading.replace("`", "") for heading in HEADING))
    for case, reading in readings:
        table.add_row(*row(case, reading))
    console.print(table)
    if options.docs:
        write_block(BLOCK, f"{one_line(describe())}\n\n{render(readings)}")
    return int(any(reading.peak > case.bound for case, reading in readings))


if __name__ == "__main__":
    sys.exit(main())
