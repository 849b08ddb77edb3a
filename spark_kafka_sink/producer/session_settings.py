"""Session settings beyond the producer configuration."""

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
    """The client id to send if the configuration has no client.id."""
    task: int = 0
    dry_run: bool = False
    """Build batches, but send none."""
    assumed_topics: tuple[tuple[str, int], ...] = ()
    """Names and partition counts to assume for missing topics, in a dry run."""
    statistics_path: str | None = None
    """Path for the session's statistics, without the suffix; None for the log."""
    arrow_batch_limits: tuple[tuple[str, str], ...] = ()
    """Spark's limits for the Arrow batches that it passes on, by option name, for the advisor."""
