"""The figures of exactly once as tables, and its targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.config.exactly_once import DeliveryGuarantee
from tools.benchmarks.exactly_once.figures import TRIGGER
from tools.benchmarks.sample import failure_notes
from tools.benchmarks.tables import Table
from tools.benchmarks.targets import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.benchmarks.exactly_once.figures import ExactlyOnceFigures

PHASES = ("queryPlanning", "addBatch", "walCommit", "commitOffsets")
"""Of a micro-batch; tasks, and the sink's commit, are in addBatch."""
WANTED_RATIO = 0.90
WANTED_ADDED_MS = 150.0
WANTED_ENDING_S = 3.0


def exactly_once_tables(figures: ExactlyOnceFigures) -> list[Table]:
    """One for batch jobs, and one for streams, below which stands what else there is to say."""
    ended = []
    if figures.ending_s is not None:
        many, seconds = figures.endings.transactions, figures.ending_s
        ended = [f"{many:,} transactions end in {seconds:.2f} s (EndTxn, one broker)."]
    return [
        Table(
            "Exactly once: a batch job of 8 tasks, 131-byte JSON events from Parquet, local[2]",
            ("deliveryGuarantee", "M rec/s", "min - max", "CPU us/rec"),
            list(_jobs(figures)),
            "CPU is that of the driver, the JVM and the Python workers together.",
        ),
        Table(
            "Exactly once: micro-batches of 8 small tasks, ms, local[2]",
            ("deliveryGuarantee", "median", "p95", *PHASES),
            list(_streams(figures)),
            " ".join([*ended, *failure_notes(figures.failures())]),
        ),
    ]


def _jobs(figures: ExactlyOnceFigures) -> Iterator[tuple[str, ...]]:
    for guarantee, one in figures.jobs.items():
        if one.samples:
            spread = f"{one.slowest / 1e6:.2f} - {one.fastest / 1e6:.2f}"
            yield (guarantee.value, f"{one.rate / 1e6:.2f}", spread, f"{one.cpu_us:.3f}")
        else:
            yield (guarantee.value, "failed", "-", "-")
    if figures.ratio is not None:
        without, with_it = (figures.jobs[each] for each in DeliveryGuarantee)
        cpu = f"{with_it.cpu_us - without.cpu_us:+.3f} ({with_it.cpu_us / without.cpu_us:.2f}x)"
        yield ("what exactly-once costs", f"{figures.ratio:.2f}x", "", cpu)


def _streams(figures: ExactlyOnceFigures) -> Iterator[tuple[str, ...]]:
    for guarantee, one in figures.streams.items():
        if one.durations:
            shown = (one.middle(TRIGGER), one.p95, *(one.middle(phase) for phase in PHASES))
            yield (guarantee.value, *(f"{each:.0f}" for each in shown))
        else:
            yield (guarantee.value, "failed", *["-"] * (1 + len(PHASES)))
    if figures.added_ms is not None:
        without, with_it = (figures.streams[each] for each in DeliveryGuarantee)
        added = (figures.added_ms, with_it.p95 - without.p95)
        phases = (figures.added(phase) or 0.0 for phase in PHASES)
        yield ("what exactly-once adds", *(f"{each:+.0f}" for each in (*added, *phases)))


def exactly_once_targets(figures: ExactlyOnceFigures) -> Iterator[Target]:
    """What exactly-once may cost at most."""
    ratio, added_ms, seconds = figures.ratio, figures.added_ms, figures.ending_s
    yield Target(
        what="exactly once, a batch job of 8 tasks",
        wanted=f">= {WANTED_RATIO:.2f} of at-least-once",
        figure="-" if ratio is None else f"{ratio:.2f}x",
        met=None if ratio is None else ratio >= WANTED_RATIO,
    )
    yield Target(
        what="exactly once, added to a micro-batch of 8 tasks",
        wanted=f"<= {WANTED_ADDED_MS:.0f} ms",
        figure="-" if added_ms is None else f"{added_ms:.0f} ms",
        met=None if added_ms is None else added_ms <= WANTED_ADDED_MS,
    )
    yield Target(
        what=f"exactly once, EndTxn of {figures.endings.transactions:,} transactions",
        wanted=f"< {WANTED_ENDING_S:.0f} s",
        figure="-" if seconds is None else f"{seconds:.2f} s",
        met=None if seconds is None else seconds < WANTED_ENDING_S,
    )
