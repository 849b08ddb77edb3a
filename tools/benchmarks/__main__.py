"""Compare this sink with similar sinks: `python -m tools.benchmarks [--quick]`.

The parts, which `--only` selects by name, are the encoders alone, the producer core compared with
librdkafka and Java, and whole Spark writes compared with Spark's own sink and with others. All
parts except the first run against a real Kafka that the benchmark starts. If a part fails, the
failure is reported and the other parts run. All samples are written to a folder.
Absolute figures depend on the machine and its load, so compare the ratios, and use an idle machine.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict

from rich.console import Console

from tools.benchmarks import encryption, exactly_once, page
from tools.benchmarks.core import codec, encoders, rates
from tools.benchmarks.kafka import Plan, Workbench
from tools.benchmarks.results import describe
from tools.benchmarks.spark import first_writes, format_writes, micro_batches, sweeps, writes
from tools.benchmarks.tables import Figures

Part = tuple[Callable[[Workbench, Plan], Figures], Plan]

PARTS: dict[str, Part] = {
    "encoder": (encoders.measure, Plan(0, 3)),
    "formats": (format_writes.measure_format_writes, Plan(2_000_000, 4)),
    "core": (rates.measure_core, Plan(4_000_000, 3)),
    "headers": (rates.measure_headers, Plan(2_000_000, 3)),
    "sizes": (rates.measure_sizes, Plan(3_000_000, 3)),
    "codec": (codec.measure, Plan(1_000_000, 2)),
    "latency": (rates.measure_latency, Plan(0, 2)),
    "spark": (writes.measure_rates, Plan(4_000_000, 4)),
    "first-write": (first_writes.measure_first_writes, Plan(1_000_000, 2)),
    "micro-batches": (micro_batches.measure, Plan(20, 2)),
    "partitions": (sweeps.measure_partitions, Plan(1_000_000, 3)),
    "topics": (sweeps.measure_topics, Plan(1_000_000, 3)),
    "exactly-once": (exactly_once.measure_exactly_once, Plan(4_000_000, 4)),
    "encryption": (encryption.measure_encryption, Plan(4_000_000, 2)),
}
"""The parts in order of measurement, with their records and rounds."""


def run_parts(parts: Mapping[str, Part], bench: Workbench, page_figures: page.Found) -> None:
    """Run the parts in order, and add their results to `page_figures`.

    A failure of a part is recorded in the results, and the next part gets a new Kafka.
    """
    machine = describe()
    try:
        for name, (measure, plan) in parts.items():
            started = time.monotonic()
            page_figures["machines"][name] = machine
            try:
                figures = measure(bench, plan)
            except Exception:  # noqa: BLE001  # Any error: it must not discard hours of other results.
                page_figures["failures"][name] = traceback.format_exc()
                bench.log(f"FAILED: {name}\n{page_figures['failures'][name]}")
                bench.stop()
            else:
                page_figures["parts"][name] = figures.samples
                page_figures["tables"][name] = [asdict(table) for table in figures.tables]
                page_figures["targets"][name] = [asdict(target) for target in figures.targets]
            page_figures["seconds"][name] = round(time.monotonic() - started, 1)
            page.save(page_figures)  # A later failure must not lose these samples.
    finally:
        bench.stop()


def main() -> None:
    """Run the selected benchmarks, print the tables, and write the results."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use small sizes and one round")
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="run only this part; may be repeated"
    )
    parser.add_argument(
        "--docs", action="store_true", help="write the tables into README.md and docs/benchmarks.md"
    )
    arguments = parser.parse_args()
    if arguments.docs and arguments.quick:
        parser.error("--docs requires full sizes, without --quick")
    parts = {
        name: (measure, plan.quick() if arguments.quick else plan)
        for name, (measure, plan) in PARTS.items()
        if name in (arguments.only or PARTS)
    }
    figures = page.empty()
    run_parts(parts, Workbench(Console(stderr=True, highlight=False, markup=False).log), figures)
    print(page.markdown(figures))
    print(f"all samples: {page.DRAFT}")
    if arguments.docs:
        page.publish(figures)
    sys.exit(1 if figures["failures"] else 0)


if __name__ == "__main__":
    main()
