"""The delivery report: what one task, or all of them together, got into Kafka."""

from __future__ import annotations

from dataclasses import dataclass

from spark_kafka_sink.report.delivery_counters import DeliveryCounters


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport(DeliveryCounters):
    """The report of a write or a micro-batch; several add up."""
