"""Latency of a record from its scheduled time to its acknowledgement, at a fixed rate.

This core and librdkafka in C take turns on the same real Kafka, with acks=all and idempotence. Both
send the same bursts, one every 5 ms, each to the next partition.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from tools.benchmarks.core.contestants import (
    LIBRDKAFKA,
    OURS,
    RANDOM,
    SAFE,
    NoCompilerError,
    build_librdkafka,
    librdkafka_command,
)
from tools.benchmarks.core.job import Job
from tools.benchmarks.payload import lines_file
from tools.benchmarks.processes import python, run_process
from tools.benchmarks.results import Table, Target, at_most, attempt, failure_notes
from tools.benchmarks.topics import fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WARMUP_S = 2
_BEHIND_MS = 0.3
"""Maximum ratio of the median to librdkafka's median, at linger.ms 0."""
_NOTE = (
    "Medians over the rounds. Bursts are 5 ms apart, which no latency includes; CPU is the share "
    "of one core."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPlan:
    """Seconds per run, rounds, and the configurations: (records per second, linger in ms)."""

    seconds: int
    rounds: int
    configurations: tuple[tuple[int, int], ...] = (
        (20_000, 0),
        (20_000, 5),
        (100_000, 0),
        (100_000, 5),
    )


@dataclass(frozen=True, slots=True)
class LatencySeries:
    """The runs of one producer in one configuration. Times are in microseconds."""

    contestant: str
    rate: int
    linger_ms: int
    runs: list[dict[str, float]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def middle(self, name: str) -> float:
        """Return the median of a figure over the runs."""
        return median(run[name] for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Return the series as a JSON object."""
        return {
            **asdict(self),
            "median_p50_us": self.middle("p50_us") if self.runs else None,
            "median_p99_us": self.middle("p99_us") if self.runs else None,
        }


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """The series of all configurations."""

    series: Sequence[LatencySeries]

    def tables(self) -> list[Table]:
        """Return the latency table."""
        return [latency_table(self.series)]

    def targets(self) -> list[Target]:
        """Return targets for the medians at linger.ms 0, relative to librdkafka's medians."""
        rates = dict.fromkeys(one.rate for one in self.series if one.linger_ms == 0)
        return [self._target(rate) for rate in rates]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the figures as a JSON object."""
        return [one.to_dict() for one in self.series]

    def _target(self, rate: int) -> Target:
        medians = {
            one.contestant: one.middle("p50_us") / 1000
            for one in self.series
            if (one.rate, one.linger_ms) == (rate, 0) and one.runs
        }
        behind, figure = None, ""
        if medians.keys() >= {OURS, LIBRDKAFKA}:
            behind = medians[OURS] - medians[LIBRDKAFKA]
            figure = f"{behind:+.2f} ms ({medians[OURS]:.2f} to {medians[LIBRDKAFKA]:.2f})"
        what = f"latency, {rate:,} rec/s, linger.ms 0: median minus librdkafka's"
        return at_most(what, _BEHIND_MS, " ms", behind, figure)


def measure(
    bootstrap_servers: str, plan: LatencyPlan, log: Callable[[str], None]
) -> LatencyFigures:
    """Run all rounds."""
    commands = _commands(log)
    series = [
        LatencySeries(name, rate, linger)
        for rate, linger in plan.configurations
        for name in commands
    ]
    for number in range(plan.rounds):
        for one in series:
            log(
                f"latency, round {number + 1} of {plan.rounds}: {one.contestant}, "
                f"{one.rate:,} rec/s, linger {one.linger_ms}"
            )
            run = partial(_run, commands[one.contestant], one, plan, bootstrap_servers)
            figures = attempt(run, one.failures, log)
            if figures is not None:
                one.runs.append(figures)
    return LatencyFigures(series)


def _commands(log: Callable[[str], None]) -> dict[str, Callable[[Job], list[str]]]:
    ours = {OURS: lambda job: python("tools.benchmarks.core.ours", job.to_json())}
    try:
        build_librdkafka()
    except NoCompilerError as error:
        log(f"librdkafka is omitted: {error}")
        return ours
    return {**ours, LIBRDKAFKA: librdkafka_command}


def _run(
    command: Callable[[Job], list[str]],
    configuration: LatencySeries,
    plan: LatencyPlan,
    bootstrap_servers: str,
) -> dict[str, float]:
    warmup, records = configuration.rate * WARMUP_S, configuration.rate * plan.seconds
    options = {
        **SAFE,
        "linger.ms": str(configuration.linger_ms),
        "bench.rate": str(configuration.rate),
    }
    with fresh_topic(bootstrap_servers, warmup + records) as topic:
        job = Job(
            bootstrap_servers=bootstrap_servers,
            topic=topic,
            payload=lines_file(RANDOM),
            warmup=warmup,
            records=records,
            options=options,
        )
        figures, _ = run_process(command(job))
    return {name: value for name, value in figures.items() if isinstance(value, int | float)}


def latency_table(series: Sequence[LatencySeries]) -> Table:
    """Return a table of the latency percentiles and the CPU use."""
    rows = [(one.contestant, f"{one.rate:,}", str(one.linger_ms), *_cells(one)) for one in series]
    notes = failure_notes(
        (f"{one.contestant} at {one.rate:,} rec/s, linger.ms {one.linger_ms},", one.failures)
        for one in series
    )
    return Table(
        "Latency: 100-byte random records, acks=all, idempotent, from due time to acknowledgement",
        ("producer", "rec/s", "linger.ms", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "CPU"),
        rows,
        " ".join([_NOTE, *notes]),
    )


def _cells(one: LatencySeries) -> tuple[str, ...]:
    if not one.runs:
        return ("failed", "-", "-", "-", "-")
    return (
        *(f"{one.middle(name) / 1000:.2f}" for name in ("p50_us", "p99_us", "p999_us")),
        f"{one.middle('max_us') / 1000:.1f}",
        f"{one.middle('cpu_s') / one.middle('seconds'):.0%}",
    )
