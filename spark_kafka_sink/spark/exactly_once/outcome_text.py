"""What a failed batch reports: which transactions may be open, and what ends them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import TornTransactionError, error_text
from spark_kafka_sink.common.text import listed, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_VISIBLE = (
    "none of its transactions was committed, so read_committed readers see no rows of the finished "
    "tasks"
)
VISIBLE = "read_committed readers see the rows of the batch once, although Spark reports a failure"
_PARTIAL = "the batch was decided, but only part of its transactions could be committed"
_UNKNOWN = "it is unknown whether the batch was decided, and which of its rows are visible"
_MAX_LISTED = 10
"""Maximum number of transactional ids in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeText:
    """Describes the outcomes of one write's batches."""

    prefix: str
    servers: tuple[str, ...]
    """The bootstrap servers."""
    may_time_out: bool
    """False with two-phase commit, whose transactions have no timeout."""

    @property
    def or_timeout(self) -> str:
        """The last words of a sentence about the end of open transactions."""
        return " or when they time out" if self.may_time_out else ""

    def open_transactions(self, names: Sequence[str], problem: str) -> str:
        """Describe which transactions might be open, and until when; empty if none can be open."""
        parts = []
        if names:
            ends = " until it times out" if len(names) == 1 else " until they time out"
            until = ends if self.may_time_out else ""
            listed_names = listed(names, _MAX_LISTED)
            parts.append(f"{plural(len(names), 'transaction')} may be open{until}: {listed_names}")
        if problem:
            parts.append(f"transactions of tasks that did not finish may be open: {problem}")
        return "; ".join(parts)

    def failed_abort(self, error: Exception, names: Sequence[str]) -> tuple[str, str]:
        """Describe the outcome and the remedy if abort() itself fails with `error`."""
        if isinstance(error, TornTransactionError):
            return _PARTIAL, f"{_PARTIAL}: {error_text(error)}"
        still_open = self.open_transactions(names, error_text(error))
        before = " before the transactions time out" if self.may_time_out else ""
        return still_open, (
            f"{_UNKNOWN}; {still_open}. Run the batch again{before}: it first commits what was "
            f"decided. {self._operator_command('list')} shows whether they are decided, and "
            f"{self._operator_command('commit')} commits those that are"
        )

    def aborted(self, still_open: str) -> str:
        """Describe the outcome of an aborted batch, and the command that ends open transactions."""
        if not still_open:
            return _NOT_VISIBLE
        return (
            f"{_NOT_VISIBLE}; {still_open}. They end when the batch runs again{self.or_timeout}. "
            "If no query or job with the prefix is running, end them with "
            f"{self._operator_command('abort --undecided')}"
        )

    def _operator_command(self, name: str) -> str:
        servers = ",".join(self.servers)
        return (
            f"`kafkaprod transactions {name} --prefix {self.prefix} --bootstrap-servers {servers}`"
        )
