"""Measures this sink and its peers side by side: `python -m tools.benchmarks [--quick]`.

Seven parts: the encoder alone, the producer core beside librdkafka and Java, the codecs by level
and the thread that compresses beside other threads that could, the core's latency at a fixed rate
beside librdkafka's, whole Spark writes beside Spark's own sink, what encryption costs each of them,
and what exactly-once costs; all but the first on a real Kafka that is started for it. A contestant
that fails is reported in its place, and the others go on. The figures hold for the machine and the
moment: compare the ratios, and run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tests.support.kafka.jars import ROOT
from tools.benchmarks import codec_cost, codec_place, core, encoder, encryption, latency, spark
from tools.benchmarks.codec_cost import CodecCost, cost_table
from tools.benchmarks.codec_place import codec_table
from tools.benchmarks.core import CorePlan
from tools.benchmarks.encryption import Cost, EncryptionPlan, encryption_table
from tools.benchmarks.exactly_once import measuring as exactly_once
from tools.benchmarks.exactly_once.figures import ExactlyOnceFigures, ExactlyOncePlan
from tools.benchmarks.exactly_once.tables import exactly_once_tables, exactly_once_targets
from tools.benchmarks.latency import LatencyPlan, LatencySeries, latency_table
from tools.benchmarks.machine import describe, one_line
from tools.benchmarks.payload import FOLDER
from tools.benchmarks.processes import python
from tools.benchmarks.spark import SparkPlan
from tools.benchmarks.tables import Table, core_table, encoder_table, spark_table, target_table
from tools.benchmarks.targets import Target, core_targets, encoder_targets, spark_targets
from tools.benchmarks.topics import measured_kafka
from tools.docs.pages import write_block

if TYPE_CHECKING:
    from tools.benchmarks.encoder import EncoderResult
    from tools.benchmarks.sample import Series

_JSON = FOLDER / "figures.json"
PARTS = ("encoder", "core", "codec", "latency", "spark", "encryption", "exactly-once")
_OWN_KAFKA = {"encoder", "encryption"}
"""Parts that need none, or another one than the others share."""
_TITLES = {
    core.RANDOM: "Core: 100-byte random records, acks=all, idempotent",
    core.EVENTS: "Core: 131-byte JSON events, acks=all, idempotent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured: rounds of each part."""

    encoder_rounds: int
    cost_rounds: int
    core: CorePlan
    codec: CorePlan
    latency: LatencyPlan
    spark: SparkPlan
    encryption: EncryptionPlan
    exactly_once: ExactlyOncePlan


FULL = Size(
    encoder_rounds=60,
    cost_rounds=10,
    core=CorePlan(records=4_000_000, warmup=500_000, rounds=4),
    codec=CorePlan(records=1_500_000, warmup=200_000, rounds=3),
    latency=LatencyPlan(seconds=8, rounds=2),
    spark=SparkPlan(records=4_000_000, rounds=4),
    encryption=EncryptionPlan(
        core=CorePlan(records=4_000_000, warmup=500_000, rounds=3),
        spark=SparkPlan(records=4_000_000, rounds=3),
    ),
    exactly_once=ExactlyOncePlan(
        records=4_000_000,
        rounds=5,
        stream_rounds=3,
        micro_batches=10,
        transactions=1_000,
        endings=3,
    ),
)
QUICK = Size(
    encoder_rounds=15,
    cost_rounds=2,
    core=CorePlan(records=1_000_000, warmup=300_000, rounds=1),
    codec=CorePlan(records=300_000, warmup=100_000, rounds=1),
    latency=LatencyPlan(seconds=3, rounds=1),
    spark=SparkPlan(records=500_000, rounds=1),
    encryption=EncryptionPlan(
        core=CorePlan(records=500_000, warmup=100_000, rounds=1),
        spark=SparkPlan(records=200_000, rounds=1),
    ),
    exactly_once=ExactlyOncePlan(
        records=400_000,
        rounds=2,
        stream_rounds=1,
        micro_batches=10,
        transactions=200,
        endings=1,
    ),
)


@dataclass(slots=True)
class Figures:
    """Everything that a run has measured."""

    machine: dict[str, str]
    encoder: list[EncoderResult] = field(default_factory=list)
    core: dict[str, list[Series]] = field(default_factory=dict)
    codec_costs: list[CodecCost] = field(default_factory=list)
    codec: list[Series] = field(default_factory=list)
    latency: list[LatencySeries] = field(default_factory=list)
    spark: list[Series] = field(default_factory=list)
    encryption: list[Cost] = field(default_factory=list)
    exactly_once: ExactlyOnceFigures | None = None

    def targets(self) -> list[Target]:
        """Judged where the part was measured."""
        met = list(encoder_targets(self.encoder))
        if self.core:
            met += core_targets(self.core[core.RANDOM])
        met += spark_targets(self.spark)
        return [*met, *(exactly_once_targets(self.exactly_once) if self.exactly_once else [])]

    def tables(self) -> list[Table]:
        """One for each part, and the targets."""
        tables = [encoder_table(self.encoder)] if self.encoder else []
        tables += [core_table(_TITLES[payload], series) for payload, series in self.core.items()]
        tables += [cost_table(self.codec_costs)] if self.codec_costs else []
        tables += [codec_table(self.codec)] if self.codec else []
        tables += [latency_table(self.latency)] if self.latency else []
        tables += [spark_table(self.spark)] if self.spark else []
        tables += [encryption_table(self.encryption)] if self.encryption else []
        tables += exactly_once_tables(self.exactly_once) if self.exactly_once else []
        return [*tables, target_table(self.targets())]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "machine": self.machine,
            "encoder": [asdict(result) for result in self.encoder],
            "core": {name: [one.to_dict() for one in all_] for name, all_ in self.core.items()},
            "codec_costs": [asdict(cost) for cost in self.codec_costs],
            "codec": [one.to_dict() for one in self.codec],
            "latency": [one.to_dict() for one in self.latency],
            "spark": [one.to_dict() for one in self.spark],
            "encryption": [cost.to_dict() for cost in self.encryption],
            "exactly_once": self.exactly_once.to_dict() if self.exactly_once else None,
            "targets": [asdict(target) for target in self.targets()],
        }

    def markdown(self) -> str:
        """The tables for a page, the machine above them."""
        texts = [one_line(self.machine), *(table.markdown() for table in self.tables())]
        return "\n\n".join(texts) + "\n"


def measure(parts: list[str], size: Size, tell: Console) -> Figures:
    """Run the parts in their order."""
    figures = Figures(describe())
    if "encoder" in parts:
        tell.log("encoder")
        line = python("tools.benchmarks.encoder", str(size.encoder_rounds))
        done = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, check=True)
        figures.encoder = [encoder.result(one) for one in json.loads(done.stdout)]
    if "codec" in parts:
        tell.log("codecs by level")
        figures.codec_costs = codec_cost.measure(size.cost_rounds)
    if set(parts) - _OWN_KAFKA:
        tell.log("starting Kafka")
        with measured_kafka() as kafka:
            if "core" in parts:
                figures.core = core.measure(kafka.bootstrap_servers, size.core, tell.log)
            if "codec" in parts:
                figures.codec = codec_place.measure(kafka.bootstrap_servers, size.codec, tell.log)
            if "latency" in parts:
                figures.latency = latency.measure(kafka.bootstrap_servers, size.latency, tell.log)
            if "spark" in parts:
                figures.spark = spark.measure(kafka.bootstrap_servers, size.spark, tell.log)
            if "exactly-once" in parts:
                figures.exactly_once = exactly_once.measure(
                    kafka.bootstrap_servers, size.exactly_once, tell.log
                )
    if "encryption" in parts:
        figures.encryption = encryption.measure(size.encryption, tell.log)
    return figures


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", default=_JSON, help="every sample")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there")
    parser.add_argument("--docs", action="store_true", help="write them into docs/benchmarks.md")
    arguments = parser.parse_args()
    if arguments.docs and (arguments.only or arguments.quick):
        parser.error("--docs takes the whole measurement, without --only and --quick")
    return arguments


def main() -> None:
    """Measure, show, and write what was asked for."""
    arguments = _arguments()
    started = time.monotonic()
    progress = Console(stderr=True, highlight=False)
    size = QUICK if arguments.quick else FULL
    figures = measure(arguments.only or list(PARTS), size, progress)
    shown = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    shown.print(one_line(figures.machine))
    for table in figures.tables():
        shown.print(table.rich())
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(figures.to_dict(), indent=1) + "\n")
    shown.print(f"every sample as JSON: {arguments.json}", soft_wrap=True)
    if arguments.markdown:
        arguments.markdown.write_text(figures.markdown())
    if arguments.docs:
        write_block("figures", figures.markdown())
    progress.log(f"done in {(time.monotonic() - started) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
