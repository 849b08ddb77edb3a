"""What was written to one partition, and what became of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.base.status import DeliveryStatus, PartitionStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """Counters of one partition; sizes in bytes.

    The offsets are those of acknowledged records, None where the broker named none (acks=0, or a
    batch it had already). Other writers' records may lie between them.
    """

    topic: str
    partition: int
    batches: int = 0
    bytes_uncompressed: int = 0
    """Batches as encoded, their headers included; of acknowledged or sent records."""
    bytes_sent: int = 0
    """The same batches after compression."""
    first_offset: int | None = None
    last_offset: int | None = None
    persisted: int = 0
    possibly_persisted: int = 0
    not_persisted: int = 0
    sent: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def records(self) -> int:
        """Records handed to the producer, whatever became of them."""
        return self.persisted + self.possibly_persisted + self.not_persisted + self.sent

    @classmethod
    def combine(cls, parts: Iterable[PartitionReport]) -> Self:
        """Add up reports of one partition; at least one is needed."""
        reports = list(parts)
        firsts = [part.first_offset for part in reports if part.first_offset is not None]
        lasts = [part.last_offset for part in reports if part.last_offset is not None]
        return cls(
            topic=reports[0].topic,
            partition=reports[0].partition,
            batches=sum([part.batches for part in reports]),
            bytes_uncompressed=sum([part.bytes_uncompressed for part in reports]),
            bytes_sent=sum([part.bytes_sent for part in reports]),
            first_offset=min(firsts, default=None),
            last_offset=max(lasts, default=None),
            persisted=sum([part.persisted for part in reports]),
            possibly_persisted=sum([part.possibly_persisted for part in reports]),
            not_persisted=sum([part.not_persisted for part in reports]),
            sent=sum([part.sent for part in reports]),
        )

    def statuses(self) -> tuple[PartitionStatus, ...]:
        """One entry for each outcome that is not "persisted", as `DeliveryError` takes them."""
        return tuple(
            PartitionStatus(
                topic=self.topic, partition=self.partition, records=records, status=status
            )
            for status in DeliveryStatus
            if status is not DeliveryStatus.PERSISTED and (records := getattr(self, status))
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"records": self.records, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` made."""
        return cls(**{field.name: data[field.name] for field in fields(cls)})
