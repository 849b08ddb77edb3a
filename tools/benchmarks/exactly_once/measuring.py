"""All rounds: batch jobs and streams of both guarantees in turns, then many transactions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tools.benchmarks.exactly_once.child import TASKS
from tools.benchmarks.exactly_once.ending import end_all
from tools.benchmarks.exactly_once.figures import EXACTLY_ONCE, ExactlyOnceFigures
from tools.benchmarks.exactly_once.tables import exactly_once_tables, exactly_once_targets
from tools.benchmarks.payload import events_folder
from tools.benchmarks.sample import Sample, attempt
from tools.benchmarks.spark.warm import WarmSpark
from tools.benchmarks.topics import PARTITIONS, fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_kafka_sink.config.exactly_once import DeliveryGuarantee
    from tools.benchmarks.exactly_once.figures import ExactlyOncePlan
    from tools.benchmarks.tables import Table
    from tools.benchmarks.targets import Target

_K = TypeVar("_K")
_V = TypeVar("_V")
CHILD = "tools.benchmarks.exactly_once.child"
_FIRST_WARM_UP = 400_000
_WARM_UP_JOBS = 2
"""Of each guarantee."""
_WARM_UP_BATCHES = 3
"""Of every stream: its Python processes start in the first."""
_ROWS = 100
"""Of a task of a micro-batch."""
_MARKERS = TASKS * PARTITIONS
"""Most that a batch of exactly-once leaves in its topic."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures, for those who know of parts only."""

    figures: ExactlyOnceFigures

    def tables(self) -> list[Table]:
        """Jobs, and streams."""
        return exactly_once_tables(self.figures)

    def targets(self) -> list[Target]:
        """What exactly-once may cost at most."""
        return list(exactly_once_targets(self.figures))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self.figures.to_dict()


def measure(bootstrap_servers: str, plan: ExactlyOncePlan, tell: Callable[[str], None]) -> Measured:
    """All of the part."""
    figures = ExactlyOnceFigures.of(plan.transactions)
    tell(f"exactly-once: making {plan.records:,} events")
    micro_batches = plan.micro_batches + _WARM_UP_BATCHES
    for records, files in (
        (_FIRST_WARM_UP, TASKS),
        (plan.records, TASKS),
        (micro_batches * TASKS * _ROWS, micro_batches * TASKS),
    ):
        events_folder(records, files)
    with WarmSpark(CHILD) as spark:
        for number in range(_WARM_UP_JOBS):
            for guarantee, series in in_turns(figures.jobs, number):
                tell(f"exactly-once: warming up, {guarantee}")
                warm_up = partial(_job, spark, bootstrap_servers, guarantee, _FIRST_WARM_UP)
                attempt(warm_up, series.failures, tell)
        for number in range(plan.rounds):
            for guarantee, series in in_turns(figures.jobs, number):
                tell(f"exactly-once, job {number + 1} of {plan.rounds}: {guarantee}")
                write = partial(_job, spark, bootstrap_servers, guarantee, plan.records)
                series.add(write, tell)
        for number in range(plan.stream_rounds):
            for guarantee, stream in in_turns(figures.streams, number):
                tell(f"exactly-once, stream {number + 1} of {plan.stream_rounds}: {guarantee}")
                run = partial(_stream, spark, bootstrap_servers, guarantee, micro_batches)
                durations = attempt(run, stream.failures, tell)
                stream.durations += (durations or [])[_WARM_UP_BATCHES:]
    endings = figures.endings
    for number in range(plan.endings):
        tell(f"exactly-once, {plan.transactions:,} transactions, {number + 1} of {plan.endings}")
        run_ending = partial(end_all, bootstrap_servers, plan.transactions)
        if (seconds := attempt(run_ending, endings.failures, tell)) is not None:
            endings.seconds.append(seconds)
    return Measured(figures)


def in_turns(contestants: Mapping[_K, _V], number: int) -> list[tuple[_K, _V]]:
    """In their order or, in every other round, the other way round: nobody is always second."""
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
    spark: WarmSpark,
    bootstrap_servers: str,
    guarantee: DeliveryGuarantee,
    micro_batches: int,
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
