"""Where a session writes down what happens to it: report, trace, and poison rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.producer.bad_rows import BadRows
    from spark_kafka_sink.producer.dead_letter import DeadLetterTopic
    from spark_kafka_sink.producer.events import ProducerEvents
    from spark_kafka_sink.report.builder import ReportBuilder


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Shared by the parts of one session; `letters` is None without a dead letter topic."""

    report: ReportBuilder
    trace: ProducerEvents
    ward: BadRows
    letters: DeadLetterTopic | None
