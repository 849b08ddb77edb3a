"""A scope: the writes that share a driver's transactional id, so that one fences the other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from typing import Self

MAX_PREFIX: Final = 200
MAX_BATCH_ID: Final = 200
"""Characters."""
_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]+")


class ScopeKind(StrEnum):
    """What a scope belongs to; the value is a part of transactional ids and log keys."""

    STREAM = "stream"
    """All micro-batches of the one query that runs under a prefix."""
    BATCH = "batch"
    """All runs of the batch job with one batchId."""
    RUN = "run"
    """One run of a batch job without a batchId."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is fenced together, and has one entry in the decision log.

    Two batch jobs with different batchIds are two scopes, so neither can fence the other.
    """

    kind: ScopeKind
    prefix: str
    """transactionalIdPrefix."""
    name: str = ""
    """The batchId, or the random id of a run; empty for a stream."""

    @classmethod
    def stream(cls, prefix: str) -> Self:
        """The scope of a streaming query."""
        check_prefix(prefix)
        return cls(kind=ScopeKind.STREAM, prefix=prefix)

    @classmethod
    def batch(cls, prefix: str, batch_id: str) -> Self:
        """The scope of a batch job that has a batchId.

        Raises:
            ConfigError: prefix or batchId can't be part of a transactional id.
        """
        check_prefix(prefix)
        check_batch_id(batch_id)
        return cls(kind=ScopeKind.BATCH, prefix=prefix, name=batch_id)

    @classmethod
    def run(cls, prefix: str) -> Self:
        """A new scope, for one run of a batch job without a batchId."""
        check_prefix(prefix)
        return cls(kind=ScopeKind.RUN, prefix=prefix, name=token_hex(8))

    def __str__(self) -> str:
        """For messages, such as "stream orders" or "batch 2026-11-20 of orders"."""
        if self.kind is ScopeKind.STREAM:
            return f"stream {self.prefix}"
        return f"{self.kind.value} {self.name} of {self.prefix}"


def check_prefix(prefix: str) -> None:
    """Raise a ConfigError unless the text can be a transactionalIdPrefix.

    Letters, digits, ".", "_" and "-", as in a topic's name: the prefix must be found again in
    transactional ids, in patterns for listing them, and in ACLs of the type PREFIXED.
    """
    if not _PREFIX.fullmatch(prefix) or len(prefix) > MAX_PREFIX:
        raise ConfigError(
            f"transactionalIdPrefix={prefix[:MAX_PREFIX]!r} can't be used",
            hint=f"Use 1 to {MAX_PREFIX} letters, digits, '.', '_' and '-'",
        )


def check_batch_id(batch_id: str) -> None:
    """Raise a ConfigError unless the text can be a batchId: 1 to 200 printable characters."""
    if not 0 < len(batch_id) <= MAX_BATCH_ID or not batch_id.isprintable():
        raise ConfigError(
            f"batchId={batch_id[:MAX_BATCH_ID]!r} can't be used",
            hint=f"Use 1 to {MAX_BATCH_ID} printable characters, such as a date or a run's id",
        )
