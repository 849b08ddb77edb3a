"""The outcome of records that were passed to the producer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from spark_kafka_sink.common.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LINES = 20


class DeliveryStatus(StrEnum):
    """The outcome of a record, as far as the producer can determine it."""

    PERSISTED = "persisted"
    """Acknowledged by the broker with the configured acks."""
    POSSIBLY_PERSISTED = "possibly_persisted"
    """Sent without a response. The record might be in the log."""
    NOT_PERSISTED = "not_persisted"
    """Never sent, or rejected. The record is not in the log."""
    SENT = "sent"
    """Sent with acks=0. The broker does not confirm the record, so it never counts as delivered."""
    WOULD_BE_WRITTEN = "would_be_written"
    """Processed in a dry run, in which no Produce request is sent."""


_WORDS = {
    DeliveryStatus.PERSISTED: "persisted",
    DeliveryStatus.POSSIBLY_PERSISTED: "possibly persisted",
    DeliveryStatus.NOT_PERSISTED: "not persisted",
    DeliveryStatus.SENT: "sent, unconfirmed",
    DeliveryStatus.WOULD_BE_WRITTEN: "would be written",
}
_STATUSES = {words: status for status, words in _WORDS.items()}
_LINE = re.compile(
    rf"(?P<topic>\S+?)(?:-(?P<partition>\d+))?: (?P<words>{'|'.join(_STATUSES)}) "
    r"(?P<records>[\d,]+)(?: \((?P<error>.*)\))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """Number of records in one partition that have the same outcome."""

    topic: str
    partition: int
    """The partition's index; negative for records without a partition."""
    records: int
    status: DeliveryStatus
    error: str | None = None
    """The name of Kafka's error or of a client-side error; None if there is no error."""

    def __str__(self) -> str:
        reason = f" ({self.error})" if self.error else ""
        name = partition_name(self.topic, self.partition)
        return f"{name}: {_WORDS[self.status]} {self.records:,}{reason}"

    @classmethod
    def parse(cls, line: str) -> Self | None:
        """Parse the output of `str`. Return None if the line has a different form."""
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        return cls(
            topic=match["topic"],
            partition=-1 if match["partition"] is None else int(match["partition"]),
            records=int(match["records"].replace(",", "")),
            status=_STATUSES[match["words"]],
            error=match["error"],
        )


def partition_name(topic: str, partition: int) -> str:
    """Return a partition's name, such as events-3. If `partition` is negative, return the topic."""
    return topic if partition < 0 else f"{topic}-{partition}"


def describe_statuses(statuses: Iterable[PartitionStatus]) -> str:
    """Summarize outcomes: a line of totals, followed by lines for up to `MAX_LINES` entries."""
    entries = sorted(statuses, key=lambda entry: (entry.topic, entry.partition, entry.status))
    if not entries:
        return ""
    lines = [_totals_line(entries), *(f"  {entry}" for entry in entries[:MAX_LINES])]
    if len(entries) > MAX_LINES:
        lines.append(f"  and {plural(len(entries) - MAX_LINES, 'more partition')}")
    return "\n".join(lines)


def _totals_line(entries: Iterable[PartitionStatus]) -> str:
    totals: dict[DeliveryStatus, int] = {}
    for entry in entries:
        totals[entry.status] = totals.get(entry.status, 0) + entry.records
    parts = (f"{words} {totals[status]:,}" for status, words in _WORDS.items() if status in totals)
    return f"Records: {', '.join(parts)}"
