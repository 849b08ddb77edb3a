"""Compare this sink with similar sinks: `python -m tools.benchmarks [--quick]`.

The parts, which `--only` selects by name, are the encoder alone, the producer core compared with
librdkafka and Java, and whole Spark writes compared with Spark's own sink and with others. All
parts except the first run against a real Kafka that the benchmark starts. If a part fails, the
failure is reported and the other parts run. All samples, tables and charts are written to a folder.
Absolute figures depend on the machine and its load, so compare the ratios, and use an idle machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path

from rich.console import Console

from tools.benchmarks import results as results_module
from tools.benchmarks.page import DRAFT, FIGURES, publish, write_draft
from tools.benchmarks.results import Results, describe, one_line
from tools.benchmarks.suite import FULL, QUICK, Workbench, suite

PARTS = tuple(part.name for part in suite(FULL))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use small sizes and one round")
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="run only this part; may be repeated"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", default=DRAFT, help=f"{DRAFT}")
    parser.add_argument(
        "--docs", action="store_true", help="write the tables into README.md and docs/benchmarks.md"
    )
    arguments = parser.parse_args()
    if arguments.docs and arguments.quick:
        parser.error("--docs requires full sizes, without --quick")
    return arguments


def _keep(folder: Path, results: Results) -> None:
    """Save all samples so far, so that a later failure does not lose them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FIGURES).write_text(json.dumps(results.to_dict(), indent=1) + "\n")


def main() -> None:
    """Run the selected benchmarks, print the tables, and write the results."""
    arguments = _arguments()
    started = time.monotonic()
    progress = Console(stderr=True, highlight=False, markup=False)
    chosen = arguments.only or PARTS
    parts = [part for part in suite(QUICK if arguments.quick else FULL) if part.name in chosen]
    results = Results(describe())
    keep = partial(_keep, arguments.out)
    results_module.measure(parts, Workbench(progress.log), results, keep)
    shown = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 160)
    shown.print(one_line(results.machine))
    for table in results.tables():
        shown.print(table.rich())
    write_draft(arguments.out)
    shown.print(f"all samples, tables and charts: {arguments.out}", soft_wrap=True)
    if arguments.docs:
        publish(arguments.out)
    progress.log(f"done in {(time.monotonic() - started) / 60:.1f} minutes")
    sys.exit(1 if results.failed() else 0)


if __name__ == "__main__":
    main()
