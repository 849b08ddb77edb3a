"""The records of the decision log: what a driver has decided, and what has become of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spark_kafka_sink.exactly_once.log_state import Decided, LogState
from spark_kafka_sink.exactly_once.protocol import finished
from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction

DecidedBatch = Decided[TaskTransaction]
"""These transactions, and no others, are the batch."""
ScopeState = LogState[TaskTransaction]
"""What the log says of a scope."""


class Fate(StrEnum):
    """What has become of a transaction that was decided to be committed."""

    COMMITTED = "committed"
    LOST = "lost"
    """The broker has aborted it, usually as its timeout was over before the driver ended it."""
    UNKNOWN = "unknown"
    """Neither does the coordinator remember how it ended, nor was a marker found in its topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A state of a scope as the log keeps it, with what a person wants to know of it."""

    state: ScopeState
    at_ms: int
    """When it was written, by the driver's clock, milliseconds since 1970."""
    transactions: int
    """How many the batch has, or had."""
    records: int
    """Records in them."""
    fates: tuple[Fate, ...] = ()
    """Of a torn batch, one for each transaction of the decision, in its order.

    Raises:
        ValueError: there are fates of a batch that is done, or of other transactions.
    """

    def __post_init__(self) -> None:
        decided = self.state.transactions if isinstance(self.state, Decided) else ()
        if self.fates and len(self.fates) != len(decided):
            raise ValueError("each transaction of a torn batch has one fate")

    @classmethod
    def of(cls, decided: DecidedBatch, at_ms: int, fates: tuple[Fate, ...] = ()) -> Record:
        """A decision, torn where there are fates."""
        return cls(
            state=decided,
            at_ms=at_ms,
            transactions=len(decided.transactions),
            records=sum(each.records for each in decided.transactions),
            fates=fates,
        )

    @classmethod
    def done(cls, decided: DecidedBatch, at_ms: int) -> Record:
        """That every transaction of a decision is committed."""
        return cls(
            state=finished(decided),
            at_ms=at_ms,
            transactions=len(decided.transactions),
            records=sum(each.records for each in decided.transactions),
        )

    @property
    def is_torn(self) -> bool:
        """Whether the batch is in its topics in part, and will never be as a whole."""
        return bool(self.fates)
