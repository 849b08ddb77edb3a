"""The delivery report's fields and metrics, from the classes that hold them."""

from __future__ import annotations

import json
from dataclasses import asdict

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.export.java_names import Metric, java_metrics
from spark_kafka_sink.metrics.producer_metrics import BrokerMetrics, ProducerMetrics, TopicMetrics
from spark_kafka_sink.report.codec_cost import CodecCost
from spark_kafka_sink.report.delivery_counters import (
    SLOWEST_KEPT,
    TASKS_KEPT,
    DeliveryCounters,
    PoisonCount,
)
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.task_report import TaskInfo, TaskReport, TransactionInfo
from tools.docs.markdown import attribute_docs, table

_PART = PartitionReport(topic="events", partition=0, persisted=1)
_TASK = TaskReport(duration_ms=1, task=TaskInfo())
_TRANSACTION = TransactionInfo(transactional_id="orders", producer_id=1, epoch=0)
_BROKER = BrokerMetrics(node_id=1, name="kafka:9092")
_TOPIC = TopicMetrics(topic="events")
_METRICS = ProducerMetrics(brokers=(_BROKER,), topics=(_TOPIC,), settings=(("buffer.memory", "1"),))
_REPORT = DeliveryReport(partitions=(_PART,), slowest=(_TASK,), metrics=_METRICS)


_WORDS = {
    "`SLOWEST_KEPT`": f"{SLOWEST_KEPT:,}",
    "`TASKS_KEPT`": f"{TASKS_KEPT:,}",
    "None": "null",
}
"""Words of docstrings that a reader of JSON does not know."""


def render_fields() -> str:
    """One row for each field of the JSON document, those of its parts below it."""
    whole = json.loads(_REPORT.to_json())
    docs = attribute_docs(DeliveryCounters)
    docs["task_columns"] = "Names of what a row of `task_rows` holds."
    docs["task_rows"] = docs["task_reports"]
    parts = {
        "slowest": (_TASK.to_dict(), attribute_docs(TaskInfo) | attribute_docs(TaskReport)),
        "transactions": (asdict(_TRANSACTION), attribute_docs(TransactionInfo)),
        "poison": (PoisonCount(reason="").to_dict(), attribute_docs(PoisonCount)),
        "codecs": (CodecCost(codec="").to_dict(), attribute_docs(CodecCost)),
        "partitions": (_PART.to_dict(), attribute_docs(PartitionReport)),
    }
    rows = []
    for name in whole:
        rows.append((f"`{name}`", _for_readers(docs[name])))
        inner, inner_docs = parts.get(name, ({}, {}))
        rows += [(f"`{name}[].{each}`", _for_readers(inner_docs[each])) for each in inner]
    return table(("field", "meaning"), rows)


def _for_readers(text: str) -> str:
    for word, other in _WORDS.items():
        text = text.replace(word, other)
    return text


def render_metric_fields() -> str:
    """What `metrics` holds."""
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
    """Java's names, and which of client, broker and topic have each."""
    found: dict[str, list[Metric]] = {}
    for metric in java_metrics(_REPORT, 1.0):
        found.setdefault(metric.name, []).append(metric)
    rows = (
        (
            f"`{name}`",
            same[0].kind.name.lower(),
            ", ".join(dict.fromkeys(_scope(metric) for metric in same)),
        )
        for name, same in sorted(found.items())
    )
    return table(("metric", "kind", "of"), rows)


def _scope(metric: Metric) -> str:
    names = {(): "the write", ("node_id",): "each broker", ("topic",): "each topic"}
    return names[tuple(label for label, _ in metric.labels)]
