"""A write that is checked before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.config.sink_config import SinkConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """The planned write."""

    config: SinkConfig
    has_key: bool | None = None
    """True if the rows have a column `key`, or None if unknown."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are known before rows are read, including the dead letter topic."""
        names = (self.config.topic, self.config.dead_letters.dead_letter_topic)
        return tuple(name for name in names if name is not None)
