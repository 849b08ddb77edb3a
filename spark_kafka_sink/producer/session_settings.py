"""What a session is told beside the producer's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_kafka_sink.config.dead_letters import DeadLetterPolicy
from spark_kafka_sink.config.throttling import ThrottlingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The sink's own options that a session needs, and the number of its Spark task."""

    dead_letters: DeadLetterPolicy = field(default_factory=DeadLetterPolicy)
    throttling: ThrottlingConfig = field(default_factory=ThrottlingConfig)
    client_id: str = ""
    """What the brokers call the session where the configuration names no client.id."""
    task: int = 0
    dry_run: bool = False
    """Make the batches and send none."""
    assumed_topics: tuple[tuple[str, int], ...] = ()
    """Of a dry run: topics and their partitions, if they don't exist."""
    statistics_path: str | None = None
    """Where the session's statistics go, without the suffix; None for the log."""
    arrow_batch_limits: tuple[tuple[str, str], ...] = ()
    """How Spark cuts the batches that it hands over, by its own names, for the advisor."""
