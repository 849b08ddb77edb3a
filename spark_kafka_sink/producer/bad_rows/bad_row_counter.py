"""The count of bad rows: if errors are tolerated, the task fails at errors.maxRatio.

Source: Kafka Connect's ``RetryWithToleranceOperator`` (KIP-298).
"""

from __future__ import annotations

import logging
from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.producer.bad_rows.row_error import RowError
from spark_kafka_sink.producer.rows import row_name
from spark_kafka_sink.report.bad_row_count import EXAMPLES_KEPT, BadRowCount

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.config.dead_letters import DeadLetterPolicy
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor
    from spark_kafka_sink.producer.rows import Rows


_LOG = logging.getLogger(__name__)
_MIN_ROWS = 1_000
"""Minimum number of rows after which the ratio of bad rows can fail a task."""


class BadRowCounter:
    """Counts bad rows by error, stores examples, and fails the task if too many rows are bad.

    Called by the writer and the sender thread.
    """

    def __init__(self, policy: DeadLetterPolicy, acls: AclAdvisor | None = None) -> None:
        self.policy = policy
        self._acls = acls
        self._lock = Lock()

        # Guarded by the lock.
        self._counts: Counter[RowError] = Counter()
        self._examples: dict[RowError, list[str]] = {}
        self._rows = 0

    def count_rows(self, count: int) -> None:
        """Add to the number of received rows, which includes bad rows."""
        with self._lock:
            self._rows += count

    def add(self, rows: Rows, errors: NDArray[np.int8]) -> None:
        """Count the bad rows of a chunk by their `RowError`, shape (n,).

        Raises:
            DeliveryError: too many of the task's rows are bad.
        """
        codes, counts = np.unique(errors[errors != RowError.NONE], return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            error = RowError(code)
            firsts = np.flatnonzero(errors == code)[:EXAMPLES_KEPT].tolist()
            examples = [
                f"{row_name(rows.number(row), rows.spark_partition)}: {error.message}"
                f"{self._problem_or_hint(error, rows, row)}"
                for row in firsts
            ]
            self.count_error(error, count, examples)
        self.check_ratio()

    def count_error(self, error: RowError, count: int, examples: list[str]) -> None:
        """Count records that have the same error; log the first record with this error."""
        with self._lock:
            first = not self._counts[error]
            self._counts[error] += count
            kept = self._examples.setdefault(error, [])
            kept += examples[: EXAMPLES_KEPT - len(kept)]
        if first:
            dead_letter_topic = self.policy.dead_letter_topic
            destination = (
                f"dead letter topic {dead_letter_topic}" if dead_letter_topic else "dropped"
            )
            _LOG.warning("bad rows (%s), %s; first: %s", error.message, destination, examples[:1])

    def check_ratio(self) -> None:
        """Raise DeliveryError once errors.maxRatio is reached."""
        with self._lock:
            bad = sum(self._counts.values())
            rows = self._rows
            if rows < _MIN_ROWS or bad < rows * self.policy.max_ratio:
                return
            reasons = "; ".join(
                f"{count:,} {error.name}, first {self._examples[error][0]}"
                for error, count in self._counts.most_common()
            )
        raise DeliveryError(
            f"{bad:,} of {plural(rows, 'row')} of the task cannot be written, but errors.maxRatio "
            f"is {self.policy.max_ratio}: {reasons}",
            hint="Correct the rows or the topics, or raise errors.maxRatio; dead letters of the "
            "last rows may not have been written.",
        )

    def build(self) -> tuple[BadRowCount, ...]:
        """Return the counts of bad rows for the delivery report."""
        kept = self.policy.dead_letter_topic is not None
        with self._lock:
            return tuple(
                BadRowCount(
                    reason=error.name,
                    dead_lettered=count if kept else 0,
                    dropped=0 if kept else count,
                    examples=tuple(sorted(self._examples[error])),
                )
                for error, count in sorted(self._counts.items(), key=lambda item: item[0].name)
            )

    def _problem_or_hint(self, error: RowError, rows: Rows, row: int) -> str:
        """Return the row's problem, or a hint if access to its topic is denied."""
        if error is RowError.UNSERIALIZABLE and rows.problems is not None:
            return f": {rows.problems[row].as_py()}"
        if self._acls is None or error is not RowError.TOPIC_UNAUTHORIZED:
            return ""
        topic = rows.topics[0 if rows.topic_indexes is None else int(rows.topic_indexes[row])]
        return f": {self._acls.hint(ErrorCode.topic_authorization_failed, topic)}"
