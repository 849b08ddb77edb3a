"""The cost of exactly-once delivery: the same jobs and streams with and without it, in turn.

Also measures how long the driver takes to end many open transactions of tasks.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, TypeVar

from spark_kafka_sink.admin.blocking_client import BlockingClient
from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.client.cluster_snapshot import TopicPartition
from spark_kafka_sink.config.exactly_once import DeliveryGuarantee
from spark_kafka_sink.config.model import ProducerConfig
from tools.benchmarks.payload import events_folder
from tools.benchmarks.results import (
    BenchmarkError,
    Sample,
    Series,
    Table,
    Target,
    attempt,
    failure_notes,
    spread,
)
from tools.benchmarks.spark.child import TASKS
from tools.benchmarks.spark.contestants import WarmSpark
from tools.benchmarks.topics import PARTITIONS, fresh_topic
from tools.support.transactions import open_transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


TRIGGER = "triggerExecution"
"""The phase in `StreamingQueryProgress.durationMs` that covers the whole micro-batch."""
AT_LEAST_ONCE, EXACTLY_ONCE = DeliveryGuarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactlyOncePlan:
    """Amounts to write, and rounds."""

    records: int
    """Number of records of a batch job."""
    rounds: int
    """Number of batch jobs per guarantee."""
    stream_rounds: int
    micro_batches: int
    """Number of measured micro-batches per stream. Each guarantee has `stream_rounds` streams."""
    transactions: int
    """Number of transactions that are opened first and then ended together."""
    endings: int


@dataclass(slots=True)
class MicroBatches:
    """Durations in ms that Spark reports for the micro-batches of all streams of a guarantee."""

    durations: list[dict[str, int]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def middle(self, phase: str) -> float:
        """Return the median of a phase in ms, or 0 if Spark does not report the phase."""
        return median(each.get(phase, 0) for each in self.durations)

    @property
    def p95(self) -> float:
        """95th percentile of the micro-batch durations in ms, of at least two micro-batches."""
        return quantiles((each[TRIGGER] for each in self.durations), n=20, method="inclusive")[-1]


@dataclass(slots=True)
class Endings:
    """Seconds until all transactions have ended, for each run."""

    transactions: int
    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ExactlyOnceFigures:
    """All measurements of this part."""

    jobs: Mapping[DeliveryGuarantee, Series]
    streams: Mapping[DeliveryGuarantee, MicroBatches]
    endings: Endings

    @classmethod
    def of(cls, transactions: int) -> ExactlyOnceFigures:
        """Return figures without samples."""
        return cls(
            {each: Series(each, "none") for each in DeliveryGuarantee},
            {each: MicroBatches() for each in DeliveryGuarantee},
            Endings(transactions),
        )

    @property
    def ratio(self) -> float | None:
        """Rate of a batch job with exactly-once, divided by the rate without exactly-once."""
        without, with_it = (self.jobs[each] for each in DeliveryGuarantee)
        if not without.samples or not with_it.samples:
            return None
        return with_it.rate / without.rate

    @property
    def added_ms(self) -> float | None:
        """Increase of the median micro-batch duration with exactly-once, in ms."""
        return self.added(TRIGGER)

    def added(self, phase: str) -> float | None:
        """Return the increase of the median of a phase with exactly-once, in ms."""
        without, with_it = (self.streams[each] for each in DeliveryGuarantee)
        if not without.durations or not with_it.durations:
            return None
        return with_it.middle(phase) - without.middle(phase)

    @property
    def ending_s(self) -> float | None:
        """Median seconds until all transactions have ended."""
        return median(self.endings.seconds) if self.endings.seconds else None

    def failures(self) -> Sequence[tuple[str, list[str]]]:
        """Return failed runs and their reasons, in the form that `failure_notes` expects."""
        return [
            *((f"a batch job, {each},", one.failures) for each, one in self.jobs.items()),
            *((f"a stream, {each},", one.failures) for each, one in self.streams.items()),
            ("EndTxn", self.endings.failures),
        ]

    def tables(self) -> list[Table]:
        """Return the tables for batch jobs and streams."""
        return exactly_once_tables(self)

    def targets(self) -> list[Target]:
        """Return the limits for the cost of exactly-once."""
        return list(exactly_once_targets(self))

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return {
            "jobs": [one.to_dict() for one in self.jobs.values()],
            "streams": {each.value: asdict(one) for each, one in self.streams.items()},
            "endings": asdict(self.endings),
        }


PHASES = ("queryPlanning", "addBatch", "walCommit", "commitOffsets")
"""Phases of a micro-batch. The tasks and the sink's commit are part of addBatch."""
WANTED_RATIO = 0.90
WANTED_ADDED_MS = 150.0
WANTED_ENDING_S = 3.0


def exactly_once_tables(figures: ExactlyOnceFigures) -> list[Table]:
    """Return a table for batch jobs and a table for streams, with notes below the second table."""
    ended = []
    if figures.ending_s is not None:
        many, seconds = figures.endings.transactions, figures.ending_s
        ended = [f"{many:,} transactions end in {seconds:.2f} s (EndTxn, one broker)."]
    return [
        Table(
            "Exactly once: a batch job of 8 tasks, 131-byte JSON events from Parquet, local[2]",
            ("deliveryGuarantee", "M rec/s", "min - max", "CPU us/rec"),
            list(_jobs(figures)),
            "CPU is the total of the driver, the JVM and the Python workers.",
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
            yield (guarantee.value, f"{one.rate / 1e6:.2f}", spread(one), f"{one.cpu_us:.3f}")
        else:
            yield (guarantee.value, "failed", "-", "-")
    if figures.ratio is not None:
        without, with_it = (figures.jobs[each] for each in DeliveryGuarantee)
        cpu = f"{with_it.cpu_us - without.cpu_us:+.3f} ({with_it.cpu_us / without.cpu_us:.2f}x)"
        yield ("cost of exactly-once", f"{figures.ratio:.2f}x", "", cpu)


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
        yield ("added by exactly-once", *(f"{each:+.0f}" for each in (*added, *phases)))


def exactly_once_targets(figures: ExactlyOnceFigures) -> Iterator[Target]:
    """Return the limits for the cost of exactly-once."""
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


SECONDS = 60.0
"""Seconds within which all transactions must have ended."""


class EndingError(BenchmarkError):
    """Not all transactions were committed."""


def end_all(bootstrap_servers: str, transactions: int) -> float:
    """Return the seconds from the first EndTxn to the last response.

    Raises:
        EndingError: a transaction was rejected, or got no response within a minute.
    """
    config = ProducerConfig.parse({"kafka.bootstrap.servers": bootstrap_servers})
    with (
        fresh_topic(bootstrap_servers, transactions, transactions) as topic,
        BlockingClient(config) as client,
    ):
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        names = [f"{topic}-{number}" for number in range(transactions)]
        opened = open_transactions(client, names, places)
        began = time.perf_counter()
        codes = TransactionAdmin(client).end(opened, commit=True, deadline=client.deadline(SECONDS))
        seconds = time.perf_counter() - began
        check_ended(codes.values())
        return seconds


def check_ended(codes: Iterable[int]) -> None:
    """Raise EndingError unless all codes are 0."""
    if refused := sorted({code for code in codes if code}):
        raise EndingError(f"EndTxn returned {refused}")


_K = TypeVar("_K")
_V = TypeVar("_V")
_FIRST_WARM_UP = 400_000
_WARM_UP_JOBS = 2
"""Warm-up jobs per guarantee."""
_WARM_UP_BATCHES = 3
"""Warm-up micro-batches per stream. The first micro-batch starts the Python processes."""
_ROWS = 100
"""Number of rows of a task in a micro-batch."""
_MARKERS = TASKS * PARTITIONS
"""Maximum number of markers that an exactly-once batch writes to its topic."""


def measure(
    bootstrap_servers: str, plan: ExactlyOncePlan, log: Callable[[str], None]
) -> ExactlyOnceFigures:
    """Run all measurements of this part."""
    figures = ExactlyOnceFigures.of(plan.transactions)
    log(f"exactly-once: generating {plan.records:,} events")
    micro_batches = plan.micro_batches + _WARM_UP_BATCHES
    for records, files in (
        (_FIRST_WARM_UP, TASKS),
        (plan.records, TASKS),
        (micro_batches * TASKS * _ROWS, micro_batches * TASKS),
    ):
        events_folder(records, files)
    with WarmSpark("tools.benchmarks.spark.child", "tasks") as spark:
        for number in range(_WARM_UP_JOBS):
            for guarantee, series in in_turns(figures.jobs, number):
                log(f"exactly-once: warming up, {guarantee}")
                warm_up = partial(_job, spark, bootstrap_servers, guarantee, _FIRST_WARM_UP)
                attempt(warm_up, series.failures, log)
        for number in range(plan.rounds):
            for guarantee, series in in_turns(figures.jobs, number):
                log(f"exactly-once, job {number + 1} of {plan.rounds}: {guarantee}")
                write = partial(_job, spark, bootstrap_servers, guarantee, plan.records)
                series.add(write, log)
        for number in range(plan.stream_rounds):
            for guarantee, stream in in_turns(figures.streams, number):
                log(f"exactly-once, stream {number + 1} of {plan.stream_rounds}: {guarantee}")
                run = partial(_stream, spark, bootstrap_servers, guarantee, micro_batches)
                durations = attempt(run, stream.failures, log)
                stream.durations += (durations or [])[_WARM_UP_BATCHES:]
    endings = figures.endings
    for number in range(plan.endings):
        log(f"exactly-once, {plan.transactions:,} transactions, {number + 1} of {plan.endings}")
        run_ending = partial(end_all, bootstrap_servers, plan.transactions)
        if (seconds := attempt(run_ending, endings.failures, log)) is not None:
            endings.seconds.append(seconds)
    return figures


def in_turns(contestants: Mapping[_K, _V], number: int) -> list[tuple[_K, _V]]:
    """Return the contestants in order, reversed in odd rounds to cancel order effects."""
    pairs = list(contestants.items())
    return pairs[::-1] if number % 2 else pairs


def _job(
    spark: WarmSpark, bootstrap_servers: str, guarantee: DeliveryGuarantee, records: int
) -> Sample:
    with fresh_topic(bootstrap_servers, records, _markers(guarantee)) as topic:
        options = _options(bootstrap_servers, topic, guarantee)
        folder = str(events_folder(records, TASKS))
        return spark.order({"options": options, "job": folder, "records": records})


def _stream(
    spark: WarmSpark, bootstrap_servers: str, guarantee: DeliveryGuarantee, micro_batches: int
) -> list[dict[str, int]]:
    expected, markers = micro_batches * TASKS * _ROWS, micro_batches * _markers(guarantee)
    with fresh_topic(bootstrap_servers, expected, markers) as topic:
        options = _options(bootstrap_servers, topic, guarantee)
        folder = str(events_folder(expected, micro_batches * TASKS))
        answer: list[dict[str, int]] = spark.ask({"options": options, "stream": folder})
        return answer


def _markers(guarantee: DeliveryGuarantee) -> int:
    return _MARKERS if guarantee is EXACTLY_ONCE else 0


def _options(bootstrap_servers: str, topic: str, guarantee: DeliveryGuarantee) -> dict[str, Any]:
    shared = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic}
    if guarantee is not EXACTLY_ONCE:
        return shared
    return shared | {"deliveryGuarantee": guarantee.value, "transactionalIdPrefix": topic}
