"""The counters of one partition: what was written, and the outcome."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.common.delivery_status import DeliveryStatus, PartitionStatus
from spark_kafka_sink.report.metrics import merging

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """Counters of one partition; sizes in bytes.

    The offsets belong to acknowledged records; they are None if the broker returned no offsets
    (acks=0, or a duplicate batch). Records of other writers may be between them.
    """

    topic: str
    """Name of the topic."""
    partition: int
    """Number of the partition; -1 for rows that failed before they got a partition."""
    batches: int = merging.summed_field()
    """Number of batches of acknowledged or sent records; for a dry run, number of batches built."""
    bytes_uncompressed: int = merging.summed_field()
    """Bytes of these batches before compression, including headers."""
    bytes_sent: int = merging.summed_field()
    """Bytes of these batches after compression."""
    first_offset: int | None = merging.merged_field(merging.lowest, None)
    """Lowest acknowledged offset."""
    last_offset: int | None = merging.merged_field(merging.highest, None)
    """Highest acknowledged offset."""
    persisted: int = merging.summed_field()
    """Number of acknowledged records."""
    possibly_persisted: int = merging.summed_field()
    """Number of records that were sent completely, but whose response was lost or unclear."""
    not_persisted: int = merging.summed_field()
    """Number of records that were never sent, or were rejected."""
    sent: int = merging.summed_field()
    """Number of records sent with acks=0."""
    would_be_written: int = merging.summed_field()
    """Number of records that a dry run processed without sending them."""
    leader: int | None = merging.merged_field(merging.same, None)
    """Node id of the broker that received the last batch; None if tasks sent batches to different
    brokers.
    """
    next_ack_seq: int | None = merging.merged_field(merging.highest, None)
    """Sequence number after the last acknowledged record of an idempotent producer; the highest of
    all sessions.
    """
    next_err_seq: int | None = merging.merged_field(merging.highest, None)
    """Sequence number after the last record with a response, either an acknowledgement or an error.
    """
    first_append_time: int | None = merging.merged_field(merging.lowest, None)
    """When the broker appended the first batch, in milliseconds since 1970; only for topics with
    message.timestamp.type=LogAppendTime.
    """
    last_append_time: int | None = merging.merged_field(merging.highest, None)
    """When the broker appended the last batch, in milliseconds since 1970; only with LogAppendTime.
    """

    @classmethod
    def merge_all(cls, partitions: Iterable[Self]) -> tuple[Self, ...]:
        """Add up reports of the same partition, and return one per partition in ascending order."""
        return merging.merge_groups(cls, partitions)

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def records(self) -> int:
        """Number of records handed to the producer, whatever their outcome."""
        return self.successful_records + self.possibly_persisted + self.not_persisted + self.sent

    @property
    def successful_records(self) -> int:
        """Number of acknowledged records plus the records that a dry run processed."""
        return self.persisted + self.would_be_written

    def statuses(self) -> tuple[PartitionStatus, ...]:
        """Return one entry for each outcome other than "persisted", as used by `DeliveryError`."""
        return tuple(
            PartitionStatus(
                topic=self.topic, partition=self.partition, records=records, status=status
            )
            for status in DeliveryStatus
            if status is not DeliveryStatus.PERSISTED and (records := getattr(self, status))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"records": self.records, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Parse the result of `to_dict`."""
        return cls(**{field.name: data[field.name] for field in fields(cls)})
