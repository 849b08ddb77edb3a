"""What becomes of poison rows: the first fails the task, or they are set aside and counted.

Writer thread only, but for `refused`, which the sender calls under its own lock.
"""

from __future__ import annotations

import logging
from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.config.dead_letters import EXAMPLES_KEPT, PoisonCount, PoisonPolicy
from spark_kafka_sink.producer.row_errors import RowError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.producer.rows import Rows

_LOG = logging.getLogger("spark_kafka_sink.poison")
_ENOUGH_ROWS = 1_000
"""Rows that a task must have seen before their share of poison ones can fail it."""


class BadRows:
    """Counts poison rows by reason, keeps examples, and stops a task that has little else."""

    def __init__(self, policy: PoisonPolicy) -> None:
        self.policy = policy
        self._lock = Lock()
        """Guards everything below."""
        self._counts: Counter[RowError] = Counter()
        self._examples: dict[RowError, list[str]] = {}
        self._rows = 0

    def seen(self, count: int) -> None:
        """So many rows have come in, poison ones included."""
        with self._lock:
            self._rows += count

    def add(self, rows: Rows, flaws: NDArray[np.int8]) -> None:
        """Count the poison rows of a chunk, shape (n,).

        Raises:
            DeliveryError: too large a share of the task's rows is poison.
        """
        found, counts = np.unique(flaws[flaws != RowError.NONE], return_counts=True)
        for code, count in zip(found.tolist(), counts.tolist(), strict=True):
            flaw = RowError(code)
            firsts = np.flatnonzero(flaws == code)[:EXAMPLES_KEPT].tolist()
            examples = [f"row {rows.first_row + row}: {flaw.message}" for row in firsts]
            self.refused(flaw, count, examples)
        self.check_ratio()

    def refused(self, flaw: RowError, count: int, examples: list[str]) -> None:
        """Count records of one flaw; log the first of them."""
        with self._lock:
            first = not self._counts[flaw]
            self._counts[flaw] += count
            kept = self._examples.setdefault(flaw, [])
            kept += examples[: EXAMPLES_KEPT - len(kept)]
        if first:
            where = self.policy.dead_letter_topic
            fate = f"dead letter topic {where}" if where else "dropped"
            _LOG.warning("poison rows (%s), %s; first: %s", flaw.message, fate, examples[:1])

    def check_ratio(self) -> None:
        """Raise a DeliveryError once errors.maxRatio is reached."""
        with self._lock:
            bad, rows = sum(self._counts.values()), self._rows
            if rows < _ENOUGH_ROWS or bad < rows * self.policy.max_ratio:
                return
            reasons = "; ".join(
                f"{count:,} {flaw.name}, first {self._examples[flaw][0]}"
                for flaw, count in self._counts.most_common()
            )
        raise DeliveryError(
            f"{bad:,} of {rows:,} rows of the task can't be written, "
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
                    reason=flaw.name,
                    dead_lettered=count if kept else 0,
                    dropped=0 if kept else count,
                    examples=tuple(sorted(self._examples[flaw])),
                )
                for flaw, count in sorted(self._counts.items(), key=lambda item: item[0].name)
            )
