"""All rules that derive advice from a finished report, in the order of their importance.

The rules have no side effects. Their input is a report, which includes its settings. Their output
is advice: the limiting setting and the evidence. There is no advice if too little was written. The
rules compare rate x linger.ms with batch.size, compression time with queue time, buffer.memory with
batch.size x partitions, and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.arguments import REPORT, check_argument
from spark_kafka_sink.report.advice import (
    arrow_advice,
    batch_advice,
    broker_advice,
    partition_advice,
    task_advice,
)
from spark_kafka_sink.report.advice.pipeline_facts import PipelineFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.report.advice.advice import Advice
    from spark_kafka_sink.report.delivery_counters import DeliveryCounters

REPORT_HINT = "DeliveryReport.read(path) reads one, and last_report() returns the latest."
_RULES: tuple[Callable[[PipelineFacts], Advice | None], ...] = (
    arrow_advice.unbounded_arrow_batches,
    arrow_advice.costly_measuring,
    broker_advice.throttling,
    broker_advice.retries,
    batch_advice.split_batches,
    task_advice.serializing,
    batch_advice.compression,
    batch_advice.round_trip_limit,
    batch_advice.buffer,
    batch_advice.small_batches,
    batch_advice.linger,
    broker_advice.brokers,
    partition_advice.skew,
    partition_advice.row_by_row,
    task_advice.tiny_tasks,
    broker_advice.blocked,
    arrow_advice.measured_arrow_batches,
    arrow_advice.short_arrow_batches,
    broker_advice.verification,
)
_DRY_RUN_RULES = (
    arrow_advice.unbounded_arrow_batches,
    arrow_advice.costly_measuring,
    batch_advice.codec,
    batch_advice.small_batches,
    batch_advice.linger,
    partition_advice.skew,
    partition_advice.row_by_row,
    task_advice.tiny_tasks,
    arrow_advice.measured_arrow_batches,
    arrow_advice.short_arrow_batches,
)
"""Rules that do not depend on the brokers' responses."""


def advise(report: DeliveryCounters) -> list[Advice]:
    """Return all advice on a report, most important first."""
    check_argument("advise(report)", report, REPORT, ("metrics",), REPORT_HINT)
    if not report.metrics.settings or not report.duration_sum_ms:
        return []
    facts = PipelineFacts(report)
    rules = _DRY_RUN_RULES if report.dry_run else _RULES
    return [advice for rule in rules if (advice := rule(facts)) is not None]
