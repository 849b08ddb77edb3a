"""The options on pressure and trouble: the buffer's share, rate limits, the circuit breaker."""

from __future__ import annotations

from spark_kafka_sink.config.option import Importance, Kind, Option


def _count(name: str, default: int, doc: str, low: int = 0) -> Option:
    return Option(
        name=name, kind=Kind.LONG, java=default, doc=doc, low=low, importance=Importance.LOW
    )


def _percent(name: str, default: int, doc: str, low: int = 0) -> Option:
    return Option(
        name=name,
        kind=Kind.INT,
        java=default,
        doc=doc,
        low=low,
        high=100,
        importance=Importance.LOW,
    )


PRESSURE_OPTIONS: tuple[Option, ...] = (
    _percent(
        "bufferShare",
        50,
        "Percent of kafka.buffer.memory that one broker may hold where there are others, and one "
        "partition half of it; rows without a key then go elsewhere, others wait. 100: no limit.",
        low=1,
    ),
    _count("rateLimit.recordsPerSecond", 0, "Records a second that one task writes; 0: no limit."),
    _count(
        "rateLimit.bytesPerSecond",
        0,
        "Uncompressed bytes a second that one task writes; 0: no limit. After a quota's pause or a "
        "storm of retries, a task goes on at a sixteenth of its limits, or of what it wrote before "
        "where it has none, and at twice as much every second.",
    ),
    _count(
        "rateLimit.job.recordsPerSecond",
        0,
        "Records a second that the whole job writes, in equal shares; 0: no limit.",
    ),
    _count(
        "rateLimit.job.bytesPerSecond",
        0,
        "Uncompressed bytes a second that the whole job writes, in equal shares; 0: no limit.",
    ),
    _count(
        "rateLimit.job.tasks",
        0,
        "Tasks that run at once: what a rateLimit.job limit is divided by, and required with one, "
        "as Spark does not tell a task.",
    ),
    _percent(
        "errors.breaker.retryPercent",
        0,
        "Percent of answers that are errors to be retried at which the circuit breaker of a "
        "partition or broker opens; 0: never.",
    ),
    _count(
        "errors.breaker.failures",
        0,
        "Batches failed for good at which the breaker of a partition opens: those of a topic that "
        "may not be written, which a task outlives with errors.tolerance=all. 0: never.",
    ),
    _percent(
        "errors.breaker.job.retryPercent",
        0,
        "The same percent over all partitions, at which the task stops early; 0: never.",
    ),
    _count(
        "errors.breaker.job.failures",
        0,
        "The same number over all partitions, at which the task stops early; 0: never.",
    ),
    _count(
        "errors.breaker.minBatches",
        20,
        "Answers below which no percent counts.",
        low=1,
    ),
    _count("errors.breaker.windowMs", 30_000, "Time over which breakers count.", low=1_000),
    _count(
        "errors.breaker.openMs",
        5_000,
        "Time that the breaker of a partition or broker stays open before one batch tries again.",
        low=1,
    ),
)
"""Given by their own name, in any case."""
