"""A scope: the writes that share a driver's transactional id, so that one fences the other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from secrets import token_hex
from typing import TYPE_CHECKING

from spark_kafka_sink.config.exactly_once import check_batch_id, check_prefix

if TYPE_CHECKING:
    from typing import Self


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
