"""A scope: the writes that share a driver's transactional id, so that one fences the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    """All runs of one write of the batch with a batchId."""
    RUN = "run"
    """One run of a batch job without a batchId."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What tells the writes of one batch apart: where their rows go, and a name.

    A function of foreachBatch may write to several topics with one batchId.
    """

    topic: str | None = None
    """The option topic; None if each row names its topic."""
    name: str | None = None
    """The option writeName."""

    def __str__(self) -> str:
        """For messages, such as "to topic events" or "named late to topic events"."""
        where = "to the topics of its rows" if self.topic is None else f"to topic {self.topic}"
        return where if self.name is None else f"named {self.name} {where}"


_ANY_TOPIC = Target()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is fenced together, and has one entry in the decision log.

    Two batch jobs with different batchIds are two scopes, so neither can fence the other. The same
    holds for two writes with one batchId and different targets.
    """

    kind: ScopeKind
    prefix: str
    """transactionalIdPrefix."""
    name: str = ""
    """The batchId, or the random id of a run; empty for a stream."""
    target: Target | None = None
    """Of a batch; None for what earlier versions decided, which did not tell its writes apart."""

    @classmethod
    def stream(cls, prefix: str) -> Self:
        """The scope of a streaming query."""
        check_prefix(prefix)
        return cls(kind=ScopeKind.STREAM, prefix=prefix)

    @classmethod
    def batch(cls, prefix: str, batch_id: str, target: Target = _ANY_TOPIC) -> Self:
        """The scope of one write of a batch that has a batchId.

        Raises:
            ConfigError: prefix or batchId can't be part of a transactional id.
        """
        check_prefix(prefix)
        check_batch_id(batch_id)
        return cls(kind=ScopeKind.BATCH, prefix=prefix, name=batch_id, target=target)

    @classmethod
    def run(cls, prefix: str) -> Self:
        """A new scope, for one run of a batch job without a batchId."""
        check_prefix(prefix)
        return cls(kind=ScopeKind.RUN, prefix=prefix, name=token_hex(8))

    @property
    def undistinguished(self) -> Scope | None:
        """The scope under which an earlier version may have decided this write.

        None if that is impossible: those versions had batches, and no writeName.
        """
        if self.target is None or self.target.name is not None:
            return None
        return replace(self, target=None)

    def __str__(self) -> str:
        """For messages, such as "stream orders" or "batch 7 of orders to topic events"."""
        if self.kind is ScopeKind.STREAM:
            return f"stream {self.prefix}"
        text = f"{self.kind.value} {self.name} of {self.prefix}"
        return text if self.target is None else f"{text} {self.target}"
