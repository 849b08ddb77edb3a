"""Compare the sink with its peers: whole Spark writes from Parquet to a real Kafka, `local[1]`.

Measured writes follow a small write of the same kind, so that the workers are already running.
"""

from collections.abc import Callable, Sequence

from tools.benchmarks import tables
from tools.benchmarks.kafka import Plan, Workbench
from tools.benchmarks.results import Series, find
from tools.benchmarks.spark.contestants import (
    CODECS,
    CONTESTANTS,
    JVM,
    OURS,
    SINK_41,
    SparkWrite,
    keyed,
    measure_writes,
)

RATES = {"none": (1.2, 1.3), "lz4": (1.2, 1.3), "zstd": (1.5, 1.5)}
"""Minimum ratios of the rate to the tuned JVM sink's rate, with null keys and with keys."""
CPU_SHARE = 0.75
"""Maximum ratio of the CPU per record to the tuned JVM sink's."""
PYTHON_US, PYTHON_US_41 = 0.2, 0.25
"""Maximum CPU microseconds of the Python workers per uncompressed record. The second limit is for
pyspark 4.1.
"""
WORKER_MIB = 200 + 64
"""Maximum peak RSS of a worker: 200 MB plus the default buffer.memory."""
SINK_COLUMN = tables.contestant("sink")
JVM_CPU = ("in the JVM", lambda result: f"{result.us('jvm_cpu_s'):.2f}")
PYTHON_CPU = ("in Python", lambda result: f"{result.us('workers_cpu_s'):.2f}")


def measure_in_turn(
    what: str, bench: Workbench, plan: Plan, writes: Sequence[SparkWrite]
) -> list[Series]:
    """Run all rounds of these writes on the Kafka of the benchmark."""
    return measure_writes(what, bench.bootstrap_servers, plan.rounds, writes, bench.log)


def measure_rates(bench: Workbench, plan: Plan) -> tables.Figures:
    """Measure all contestants with all codecs."""
    writes = [
        SparkWrite(contestant=contestant, records=plan.records, codec=codec)
        for codec in CODECS
        for contestant in CONTESTANTS
        if codec in contestant.codecs
    ]
    return rate_figures(measure_in_turn("spark", bench, plan, writes))


def rate_figures(series: Sequence[Series]) -> tables.Figures:
    """Return one table, the targets relative to the tuned JVM sink, and limits for the workers."""

    def reference(result: Series) -> Series:
        return find(
            series, keyed(JVM) if result.contestant.endswith(keyed("")) else JVM, result.codec
        )

    targets: list[tables.Target] = []
    kinds = (("null keys", OURS, JVM), ("keyed", keyed(OURS), keyed(JVM)))
    for number, (kind, ours, theirs) in enumerate(kinds):
        for codec in CODECS:
            pair = find(series, ours, codec), find(series, theirs, codec)
            rate = RATES[codec][number]
            targets += against_jvm(f"Spark, {kind}, {codec}", pair, rate, CPU_SHARE)
        old = f"{SINK_41.name}{ours.removeprefix(OURS)}"
        for release, name, most in (("", ours, PYTHON_US), (" 4.1", old, PYTHON_US_41)):
            what = f"Spark{release}, {kind}, none: CPU of the Python workers"
            used = find(series, name).us("workers_cpu_s")
            targets.append(tables.at_most(what, most, " us/rec", used))
    peak = max(
        result.most("peak_mib") for result in series if result.contestant in {OURS, keyed(OURS)}
    )
    targets.append(tables.at_most("Spark: peak RSS of the worker", WORKER_MIB, " MiB", peak))
    title = "Spark: 131-byte JSON events from Parquet, local[1], warm session"
    table = spark_table(title, series, reference)
    return tables.Figures([table], targets, [result.to_dict() for result in series])


def against_jvm(
    what: str, pair: tuple[Series, Series], rate: float, cpu_share: float
) -> tuple[tables.Target, tables.Target]:
    """Return the targets for rate and CPU relative to the tuned JVM sink."""
    return (
        tables.rate_target(f"{what}: rate relative to the tuned JVM sink's", rate, pair),
        tables.cpu_target(f"{what}: CPU relative to the tuned JVM sink's", cpu_share, pair),
    )


def spark_table(
    title: str, series: Sequence[Series], reference: Callable[[Series], Series]
) -> tables.Table:
    """Return rates, CPU by process, and memory. Ratios are relative to Spark's tuned sink."""

    def mib(heading: str, name: str) -> tuple[str, Callable[[Series], str]]:
        return heading, lambda result: f"{result.most(name):.0f}" if result.most(name) else "-"

    figures = (
        *tables.compared("vs. JVM sink", reference),
        JVM_CPU,
        PYTHON_CPU,
        mib("worker MiB", "peak_mib"),
        mib("workers MiB", "workers_peak_mib"),
        mib("JVM MiB", "jvm_peak_mib"),
    )
    about = (
        "CPU is the total of the driver, the JVM and the Python workers, including reading; ratios "
        "are relative to the tuned JVM sink with the same codec and kind of records. The MiB "
        "columns show the peak RSS during a write: of the largest Python worker, of all workers "
        "(including idle ones), and of the JVM, which retains memory from earlier writes."
    )
    return tables.series_table(title, (SINK_COLUMN, tables.CODEC), figures, series, about)
