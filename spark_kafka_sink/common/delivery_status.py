"""What became of records that were handed to the producer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from spark_kafka_sink.common.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LINES = 20


class DeliveryStatus(StrEnum):
    """The outcome of a record, as far as the producer can know it."""

    PERSISTED = "persisted"
    """Acknowledged by the broker with the acks that were asked for."""
    POSSIBLY_PERSISTED = "possibly_persisted"
    """Was sent, and no answer came: it may or may not be in the log."""
    NOT_PERSISTED = "not_persisted"
    """Never sent, or refused: it is not in the log."""
    SENT = "sent"
    """Sent with acks=0: the broker confirms nothing, so it never counts as delivered."""
    WOULD_BE_WRITTEN = "would_be_written"
    """Of a dry run: it went all the way but into a request."""


_WORDS = {
    DeliveryStatus.PERSISTED: "persisted",
    DeliveryStatus.POSSIBLY_PERSISTED: "possibly persisted",
    DeliveryStatus.NOT_PERSISTED: "not persisted",
    DeliveryStatus.SENT: "sent, unconfirmed",
    DeliveryStatus.WOULD_BE_WRITTEN: "would be written",
}
_STATUSES = {words: status for status, words in _WORDS.items()}
_LINE: Final = re.compile(
    rf"(?P<topic>\S+?)(?:-(?P<partition>\d+))?: (?P<words>{'|'.join(_STATUSES)}) "
    r"(?P<records>[\d,]+)(?: \((?P<error>.*)\))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """Records of one partition that share one outcome.

    `partition` is negative for records that had none yet. `error` is Kafka's name of the error (or
    the name of ours), None where there was none.
    """

    topic: str
    partition: int
    records: int
    status: DeliveryStatus
    error: str | None = None

    def __str__(self) -> str:
        reason = f" ({self.error})" if self.error else ""
        place = place_name(self.topic, self.partition)
        return f"{place}: {_WORDS[self.status]} {self.records:,}{reason}"

    @classmethod
    def parse(cls, line: str) -> Self | None:
        """The inverse of `str`; None where the line is something else."""
        found = _LINE.fullmatch(line)
        if found is None:
            return None
        return cls(
            topic=found["topic"],
            partition=-1 if found["partition"] is None else int(found["partition"]),
            records=int(found["records"].replace(",", "")),
            status=_STATUSES[found["words"]],
            error=found["error"],
        )


def place_name(topic: str, partition: int) -> str:
    """How a topic's partition is called, as events-3; the topic alone where there is none yet."""
    return topic if partition < 0 else f"{topic}-{partition}"


def describe_statuses(statuses: Iterable[PartitionStatus]) -> str:
    """Sum up outcomes: one line of totals, then one per partition, at most `MAX_LINES` of them."""
    entries = sorted(statuses, key=lambda entry: (entry.topic, entry.partition, entry.status))
    if not entries:
        return ""
    lines = [_totals(entries), *(f"  {entry}" for entry in entries[:MAX_LINES])]
    if len(entries) > MAX_LINES:
        lines.append(f"  and {plural(len(entries) - MAX_LINES, 'more partition')}")
    return "\n".join(lines)


def _totals(entries: Iterable[PartitionStatus]) -> str:
    totals: dict[DeliveryStatus, int] = {}
    for entry in entries:
        totals[entry.status] = totals.get(entry.status, 0) + entry.records
    parts = (f"{words} {totals[status]:,}" for status, words in _WORDS.items() if status in totals)
    return f"Records: {', '.join(parts)}"
