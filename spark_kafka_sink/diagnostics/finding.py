"""What one check says: of which step it is, how bad, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from spark_kafka_sink.common.errors import KafkaProdError


class Step(StrEnum):
    """The steps from a server's name to an accepted record, in their order."""

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


class Severity(StrEnum):
    """How a finding bears on a write."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing is wrong."""
    WARNING = "warning"
    """Some tasks or rows may fail, or the write be slower than it could be."""
    ERROR = "error"
    """Every task would fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check's result.

    `error` is what to raise, where the severity is WARNING or ERROR. `local`: it is what this host
    has found out, and another one may fare better.
    """

    step: Step
    severity: Severity
    text: str
    error: KafkaProdError | None = None
    local: bool = False

    @property
    def hint(self) -> str | None:
        """What to do."""
        return None if self.error is None else self.error.hint

    @property
    def kafka_error(self) -> str | None:
        """Kafka's name of the error code behind it, where there is one."""
        return None if self.error is None else self.error.error

    @classmethod
    def ok(cls, step: Step, text: str) -> Self:
        """All is well."""
        return cls(step=step, severity=Severity.OK, text=text)

    @classmethod
    def note(cls, step: Step, text: str) -> Self:
        """Nothing is wrong, and somebody may want to know."""
        return cls(step=step, severity=Severity.NOTE, text=text)

    @classmethod
    def warning(cls, step: Step, error: KafkaProdError, *, local: bool = False) -> Self:
        """Doubtful."""
        return cls(
            step=step, severity=Severity.WARNING, text=error.message, error=error, local=local
        )

    @classmethod
    def failure(cls, step: Step, error: KafkaProdError, *, local: bool = False) -> Self:
        """Certain to fail."""
        return cls(step=step, severity=Severity.ERROR, text=error.message, error=error, local=local)

    def to_json(self) -> dict[str, str | None]:
        """For `kafkaprod doctor --json`."""
        return {
            "step": self.step.value,
            "severity": self.severity.value,
            "text": self.text,
            "error": self.kafka_error,
            "hint": self.hint,
        }


def worst(findings: list[Finding]) -> Severity:
    """The worst of all; OK of none."""
    order = list(Severity)
    return max((each.severity for each in findings), key=order.index, default=Severity.OK)
