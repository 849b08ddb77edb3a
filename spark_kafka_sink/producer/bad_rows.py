"""Rows that can't be written, where errors are tolerated: counted by reason, up to a ratio.

Source: Kafka Connect's ``RetryWithToleranceOperator`` (KIP-298).
"""

from __future__ import annotations

import logging
from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.producer.row_errors import RowError
from spark_kafka_sink.producer.rows import row_name
from spark_kafka_sink.protocol.error_codes import ErrorCode
from spark_kafka_sink.report.poison_count import EXAMPLES_KEPT, PoisonCount

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.config.dead_letters import DeadLetterPolicy
    from spark_kafka_sink.producer.acl import AclAdvisor
    from spark_kafka_sink.producer.rows import Rows

_LOG = logging.getLogger("spark_kafka_sink.poison")
_ENOUGH_ROWS = 1_000
"""Rows that a task must have seen before the ratio of bad ones can fail it."""


class BadRows:
    """Counts bad rows by reason, keeps examples, and fails a task that has too many.

    The writer's and the sender's thread both call it.
    """

    def __init__(self, policy: DeadLetterPolicy, acls: AclAdvisor | None = None) -> None:
        self.policy = policy
        self._acls = acls
        self._lock = Lock()

        # Guarded by the lock.
        self._counts: Counter[RowError] = Counter()
        self._examples: dict[RowError, list[str]] = {}
        self._rows = 0

    def seen(self, count: int) -> None:
        """So many rows have come in, bad ones included."""
        with self._lock:
            self._rows += count

    def add(self, rows: Rows, errors: NDArray[np.int8]) -> None:
        """Count the bad rows of a chunk by their `RowError`, shape (n,).

        Raises:
            DeliveryError: too many of the task's rows are bad.
        """
        found, counts = np.unique(errors[errors != RowError.NONE], return_counts=True)
        for code, count in zip(found.tolist(), counts.tolist(), strict=True):
            error = RowError(code)
            firsts = np.flatnonzero(errors == code)[:EXAMPLES_KEPT].tolist()
            examples = [
                f"{row_name(rows.number(row), rows.spark_partition)}: {error.message}"
                f"{self._advice(error, rows, row)}"
                for row in firsts
            ]
            self.refused(error, count, examples)
        self.check_ratio()

    def _advice(self, error: RowError, rows: Rows, row: int) -> str:
        """What to do about a row of a topic that may not be written."""
        if self._acls is None or error is not RowError.TOPIC_UNAUTHORIZED:
            return ""
        topic = rows.topics[0 if rows.topic_of is None else int(rows.topic_of[row])]
        return f": {self._acls.hint(ErrorCode.topic_authorization_failed, topic)}"

    def refused(self, error: RowError, count: int, examples: list[str]) -> None:
        """Count records with one error; log the first of them."""
        with self._lock:
            first = not self._counts[error]
            self._counts[error] += count
            kept = self._examples.setdefault(error, [])
            kept += examples[: EXAMPLES_KEPT - len(kept)]
        if first:
            where = self.policy.dead_letter_topic
            fate = f"dead letter topic {where}" if where else "dropped"
            _LOG.warning("poison rows (%s), %s; first: %s", error.message, fate, examples[:1])

    def check_ratio(self) -> None:
        """Raise a DeliveryError once errors.maxRatio is reached."""
        with self._lock:
            bad, rows = sum(self._counts.values()), self._rows
            if rows < _ENOUGH_ROWS or bad < rows * self.policy.max_ratio:
                return
            reasons = "; ".join(
                f"{count:,} {error.name}, first {self._examples[error][0]}"
                for error, count in self._counts.most_common()
            )
        raise DeliveryError(
            f"{bad:,} of {plural(rows, 'row')} of the task can't be written, "
            f"errors.maxRatio is {self.policy.max_ratio}: {reasons}",
            hint="correct the rows or the topics, or raise errors.maxRatio; dead letters of the "
            "last rows may not have been written",
        )

    def build(self) -> tuple[PoisonCount, ...]:
        """The counts for the delivery report."""
        kept = self.policy.dead_letter_topic is not None
        with self._lock:
            return tuple(
                PoisonCount(
                    reason=error.name,
                    dead_lettered=count if kept else 0,
                    dropped=0 if kept else count,
                    examples=tuple(sorted(self._examples[error])),
                )
                for error, count in sorted(self._counts.items(), key=lambda item: item[0].name)
            )
