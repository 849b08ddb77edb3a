"""The topic configs that shape a log: segments, retention, flushing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.broker.topic_config import TopicConfig

UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Limits of one log, named as Kafka's configs; bytes and milliseconds.

    -1 stands for no limit of retention. A log that is not `deletes` keeps all (compaction alone).
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = UNLIMITED
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    deletes: bool = True

    @classmethod
    def of(cls, config: TopicConfig) -> LogConfig:
        """Read them from a topic's configs."""
        return cls(
            segment_bytes=config.batch_rules.segment_bytes,
            segment_ms=int(config["segment.ms"]),
            index_bytes=int(config["segment.index.bytes"]),
            index_interval_bytes=int(config["index.interval.bytes"]),
            retention_ms=int(config["retention.ms"]),
            retention_bytes=int(config["retention.bytes"]),
            flush_messages=int(config["flush.messages"]),
            flush_ms=int(config["flush.ms"]),
            deletes="delete" in config["cleanup.policy"].split(","),
        )


DEFAULT_LOG_CONFIG = LogConfig()
"""Kafka's defaults."""
