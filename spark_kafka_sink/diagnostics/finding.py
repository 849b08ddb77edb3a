"""The result of one check, with step, severity, text and hint."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from spark_kafka_sink.common.errors import KafkaProdError


class CheckStep(StrEnum):
    """The steps in order, from name resolution to the schema registry."""

    OPTIONS = "options"
    RESOLVE = "name resolution"
    CONNECT = "TCP connection"
    TLS = "TLS"
    VERSIONS = "ApiVersions"
    LOGIN = "SASL login"
    METADATA = "metadata"
    BROKERS = "brokers"
    TOPIC = "topic"
    SETTINGS = "topic settings"
    PERMISSIONS = "permissions"
    PRODUCE = "produce"
    REGISTRY = "schema registry"


class Severity(StrEnum):
    """The effect of a finding on a write."""

    OK = "ok"
    NOTE = "note"
    """Useful information that is not a problem."""
    WARNING = "warning"
    """Some tasks or rows might fail, or the write might be slower than necessary."""
    ERROR = "error"
    """Every task would fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check."""

    step: CheckStep
    severity: Severity
    text: str
    error: KafkaProdError | None = None
    """The exception to raise, if the severity is WARNING or ERROR."""
    is_local: bool = False
    """True if the result might be different on other hosts."""

    @property
    def hint(self) -> str | None:
        """How to fix the problem, or None if there is no hint."""
        return None if self.error is None else self.error.hint

    @property
    def kafka_error(self) -> str | None:
        """Kafka's name of the error code, or None if there is no error code."""
        return None if self.error is None else self.error.kafka_error

    @classmethod
    def ok(cls, step: CheckStep, text: str) -> Self:
        """Create a finding for a check that has passed."""
        return cls(step=step, severity=Severity.OK, text=text)

    @classmethod
    def note(cls, step: CheckStep, text: str) -> Self:
        """Create a finding with information that is not a problem."""
        return cls(step=step, severity=Severity.NOTE, text=text)

    @classmethod
    def warning(cls, step: CheckStep, error: KafkaProdError, *, is_local: bool = False) -> Self:
        """Create a finding for a possible problem."""
        return cls(
            step=step, severity=Severity.WARNING, text=error.message, error=error, is_local=is_local
        )

    @classmethod
    def failure(cls, step: CheckStep, error: KafkaProdError, *, is_local: bool = False) -> Self:
        """Create a finding for a problem that makes every task fail."""
        return cls(
            step=step, severity=Severity.ERROR, text=error.message, error=error, is_local=is_local
        )

    def to_json(self) -> dict[str, str | None]:
        """Return the JSON object for `kafkaprod doctor --json`."""
        return {
            "step": self.step.value,
            "severity": self.severity.value,
            "text": self.text,
            "error": self.kafka_error,
            "hint": self.hint,
        }


def worst(findings: list[Finding]) -> Severity:
    """Return the highest severity, or OK if there are no findings."""
    order = list(Severity)
    return max((finding.severity for finding in findings), key=order.index, default=Severity.OK)
