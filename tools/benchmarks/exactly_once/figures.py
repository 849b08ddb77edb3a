"""What was measured of both guarantees, and what lies between them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.config.exactly_once import DeliveryGuarantee
from tools.benchmarks.sample import Series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TRIGGER = "triggerExecution"
"""All of a micro-batch, in `StreamingQueryProgress.durationMs`."""
AT_LEAST_ONCE, EXACTLY_ONCE = DeliveryGuarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactlyOncePlan:
    """How much is written, how often."""

    records: int
    """Of a batch job."""
    rounds: int
    """Batch jobs of each guarantee."""
    stream_rounds: int
    micro_batches: int
    """Of a stream that are measured; there are `stream_rounds` streams of each guarantee."""
    transactions: int
    """That are open and then end together."""
    endings: int


@dataclass(slots=True)
class MicroBatches:
    """The micro-batches of all streams of one guarantee: what Spark says each phase took, in ms."""

    durations: list[dict[str, int]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def middle(self, phase: str) -> float:
        """Median of a phase; 0 where Spark does not tell of it."""
        return median(each.get(phase, 0) for each in self.durations)

    @property
    def p95(self) -> float:
        """Which one micro-batch in twenty takes longer than, at least two being measured."""
        return quantiles((each[TRIGGER] for each in self.durations), n=20, method="inclusive")[-1]


@dataclass(slots=True)
class Endings:
    """Seconds in which all transactions have ended, run by run."""

    transactions: int
    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ExactlyOnceFigures:
    """All of the part."""

    jobs: Mapping[DeliveryGuarantee, Series]
    streams: Mapping[DeliveryGuarantee, MicroBatches]
    endings: Endings

    @classmethod
    def of(cls, transactions: int) -> ExactlyOnceFigures:
        """Nothing measured yet."""
        return cls(
            {each: Series(each, "none") for each in DeliveryGuarantee},
            {each: MicroBatches() for each in DeliveryGuarantee},
            Endings(transactions),
        )

    @property
    def ratio(self) -> float | None:
        """Records a second of a batch job with exactly-once to those without."""
        without, with_it = (self.jobs[each] for each in DeliveryGuarantee)
        if not without.samples or not with_it.samples:
            return None
        return with_it.rate / without.rate

    @property
    def added_ms(self) -> float | None:
        """What exactly-once adds to the median of a micro-batch."""
        return self.added(TRIGGER)

    def added(self, phase: str) -> float | None:
        """What exactly-once adds to the median of a phase of a micro-batch."""
        without, with_it = (self.streams[each] for each in DeliveryGuarantee)
        if not without.durations or not with_it.durations:
            return None
        return with_it.middle(phase) - without.middle(phase)

    @property
    def ending_s(self) -> float | None:
        """Median seconds in which all transactions have ended."""
        return median(self.endings.seconds) if self.endings.seconds else None

    def failures(self) -> Sequence[tuple[str, list[str]]]:
        """What failed and why, as `failure_notes` has it."""
        return [
            *((f"a batch job, {each},", one.failures) for each, one in self.jobs.items()),
            *((f"a stream, {each},", one.failures) for each, one in self.streams.items()),
            ("EndTxn", self.endings.failures),
        ]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "jobs": [one.to_dict() for one in self.jobs.values()],
            "streams": {each.value: asdict(one) for each, one in self.streams.items()},
            "endings": asdict(self.endings),
        }
