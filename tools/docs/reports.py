"""Tables of the fields of the delivery report, and of metrics."""

import json
from dataclasses import asdict

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.report.bad_row_count import BadRowCount
from spark_kafka_sink.report.codec_cost import CodecCost
from spark_kafka_sink.report.delivery_counters import (
    SLOWEST_KEPT,
    TASKS_KEPT,
    DeliveryCounters,
    ReportedTransaction,
)
from spark_kafka_sink.report.export.java_metrics import Metric, java_metrics
from spark_kafka_sink.report.metrics.producer_metrics import (
    BrokerMetrics,
    ProducerMetrics,
    TopicMetrics,
)
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.task_attempt import TaskAttempt
from spark_kafka_sink.report.task_report import TaskReport
from tools.docs.pages import attribute_docs, table

_PART = PartitionReport(topic="events", partition=0, persisted=1)
_TASK = TaskReport(duration_ms=1, task=TaskAttempt())
_TRANSACTION = ReportedTransaction(transactional_id="orders", producer_id=1, epoch=0)
_BROKER = BrokerMetrics(node_id=1, name="kafka:9092")
_TOPIC = TopicMetrics(topic="events")
_METRICS = ProducerMetrics(brokers=(_BROKER,), topics=(_TOPIC,), settings=(("buffer.memory", "1"),))
_REPORT = DeliveryReport(partitions=(_PART,), slowest=(_TASK,), metrics=_METRICS)
_WORDS = {"`SLOWEST_KEPT`": f"{SLOWEST_KEPT:,}", "`TASKS_KEPT`": f"{TASKS_KEPT:,}", "None": "null"}
"""Replacements for words in docstrings that do not apply to JSON."""


def render_fields() -> str:
    """Return a table of the fields of the JSON report, with nested fields below their parents."""
    whole = json.loads(_REPORT.to_json())
    docs = attribute_docs(DeliveryCounters)
    docs["task_columns"] = "Names of the values in a row of `task_rows`."
    docs["task_rows"] = docs["task_reports"]
    parts = {
        "slowest": (_TASK.to_dict(), attribute_docs(TaskAttempt) | attribute_docs(TaskReport)),
        "transactions": (asdict(_TRANSACTION), attribute_docs(ReportedTransaction)),
        "poison": (asdict(BadRowCount(reason="")), attribute_docs(BadRowCount)),
        "codecs": (asdict(CodecCost(codec="")), attribute_docs(CodecCost)),
        "partitions": (_PART.to_dict(), attribute_docs(PartitionReport)),
    }
    rows = []
    for name in whole:
        rows.append((f"`{name}`", _for_readers(docs[name])))
        inner, inner_docs = parts.get(name, ({}, {}))
        rows += [
            (f"`{name}[].{field_name}`", _for_readers(inner_docs[field_name]))
            for field_name in inner
        ]
    return table(("field", "meaning"), rows)


def _for_readers(text: str) -> str:
    for word, other in _WORDS.items():
        text = text.replace(word, other)
    return text


def render_metric_fields() -> str:
    """Return a table of the fields of `metrics`."""
    rows = []
    for prefix, values, owner in (
        ("", ProducerMetrics().to_dict(), ProducerMetrics),
        ("brokers[].", _METRICS.to_dict()["brokers"][0], BrokerMetrics),
        ("topics[].", _METRICS.to_dict()["topics"][0], TopicMetrics),
    ):
        docs = attribute_docs(owner)
        rows += [(f"`{prefix}{name}`", docs[name]) for name in values]
    return table(("field of `metrics`", "meaning"), rows)


def render_metric_names() -> str:
    """Return a table of Java's metric names with their types and scopes (client, broker, topic)."""
    metrics: dict[str, list[Metric]] = {}
    for metric in java_metrics(_REPORT, 1.0):
        metrics.setdefault(metric.name, []).append(metric)
    scopes = {(): "the write", ("node_id",): "each broker", ("topic",): "each topic"}
    rows = []
    for name, same in sorted(metrics.items()):
        labels = dict.fromkeys(tuple(label for label, _ in metric.labels) for metric in same)
        scope = ", ".join(scopes[label] for label in labels)
        rows.append((f"`{name}`", same[0].kind.name.lower(), scope))
    return table(("metric", "type", "scope"), rows)
