"""The settings of a session."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_kafka_sink.config.dead_letters import DeadLetterPolicy
from spark_kafka_sink.config.throttling import ThrottlingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The sink's options for a session, and the number of the session's Spark task."""

    dead_letters: DeadLetterPolicy = field(default_factory=DeadLetterPolicy)
    throttling: ThrottlingConfig = field(default_factory=ThrottlingConfig)
    client_id: str = ""
    """The client id if client.id is not configured."""
    task_number: int = 0
    dry_run: bool = False
    """True for a dry run: batches are built but not sent."""
    assumed_topics: tuple[tuple[str, int], ...] = ()
    """Names and partition counts to assume for missing topics, in a dry run."""
    statistics_path: str | None = None
    """Path of the session's statistics files, without suffix; None to log the statistics."""
    arrow_batch_limits: tuple[tuple[str, str], ...] = ()
    """Spark's limits for the Arrow batches passed to the sink, by option name, for the advisor."""
    formats: tuple[tuple[str, str], ...] = ()
    """Formats, schema ids and subjects of the key and the value, by name, for the report."""
