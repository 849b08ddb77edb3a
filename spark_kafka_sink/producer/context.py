"""Where a session writes down what happens to it: report, trace, and poison rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.producer.bad_rows import PoisonWard
    from spark_kafka_sink.producer.dead_letter import DeadLetterTopic
    from spark_kafka_sink.producer.events import Trace
    from spark_kafka_sink.report.builder import ReportBuilder


@dataclass(frozen=True, slots=True)
class Books:
    """Shared by the parts of one session; `letters` is None without a dead letter topic."""

    report: ReportBuilder
    trace: Trace
    ward: PoisonWard
    letters: DeadLetterTopic | None
