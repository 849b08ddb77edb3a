"""Options for rows that cannot be written, and the policy that is built from them.

Source: Kafka Connect's error handling (KIP-298), which uses the same option names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config import option_definition

if TYPE_CHECKING:
    from collections.abc import Mapping


class Tolerance(StrEnum):
    """Values of errors.tolerance."""

    NONE = "none"
    """The first bad row fails the task."""
    ALL = "all"
    """Bad rows go to the dead letter topic; without such a topic, they are dropped, counted and
    logged.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPolicy:
    """The policy for rows that cannot be written."""

    tolerance: Tolerance = option_definition.enum_field("errors.tolerance", Tolerance.NONE)
    """Action for a row that cannot be written: fail the task (none), or write it to the dead
    letter topic and continue (all).
    """
    dead_letter_topic: str | None = option_definition.text_field(
        "errors.deadletterqueue.topic.name", None, field_default=None
    )
    """Dead letter topic for rows that cannot be written; without it, errors.tolerance=all drops
    them (counted and logged).
    """
    context_headers: bool = option_definition.boolean_field(
        "errors.deadletterqueue.context.headers.enable", True
    )
    """Add headers that describe the error, named as in Kafka Connect (__connect.errors.*)."""
    max_ratio: float = option_definition.double_field("errors.maxRatio", 1.0, low=0, high=1)
    """Share of bad rows, 0 to 1, at which a task fails despite errors.tolerance=all, after its
    first 1,000 rows; 1.0 fails a task only if every row is bad.
    """

    @property
    def is_tolerant(self) -> bool:
        """True if the task continues after bad rows."""
        return self.tolerance is Tolerance.ALL

    @classmethod
    def from_options(cls, values: Mapping[str, Any]) -> Self:
        """Build the policy from the parsed sink options.

        Raises:
            ConfigError: a dead letter topic is set although errors.tolerance is none.
        """
        topic = values["errors.deadletterqueue.topic.name"] or None
        if topic is not None and values["errors.tolerance"] is Tolerance.NONE:
            raise ConfigError(
                "errors.deadletterqueue.topic.name is set, but errors.tolerance is none: the dead "
                "letter topic would never be used",
                hint='Add .option("errors.tolerance", "all").',
            )
        return cls(**option_definition.fields_of(cls, values), dead_letter_topic=topic)


DEAD_LETTER_OPTIONS = option_definition.options_of(DeadLetterPolicy)
