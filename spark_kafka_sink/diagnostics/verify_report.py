"""Check that the records of a delivery report still exist in Kafka.

For each partition, `verify_report` counts the committed records between the report's first and last
offset. Acknowledged records can be lost by an unclean leader election or, with acks=1, if a leader
fails before a follower has replicated the records. Retention and compaction also delete records.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import UnknownTopicError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.kafka.logs.topic_reader import OffsetRange, TopicReader
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.record_decoder import decode_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
    from spark_kafka_sink.report.delivery_counters import DeliveryCounters
    from spark_kafka_sink.report.partition_report import PartitionReport


class PartitionVerdict(StrEnum):
    """The result for one partition."""

    COMPLETE = "complete"
    """The log contains at least as many committed records between the offsets as were acknowledged.
    """
    MISSING = "missing"
    """The log contains fewer committed records than were acknowledged."""
    OPEN = "open transaction"
    """An open transaction precedes the last records, so consumers cannot receive these records yet.
    """
    UNKNOWN = "unknown"
    """The report contains no offsets: acks=0 was set, or the brokers returned no offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCheck:
    """The result of comparing a partition of a report with its log."""

    topic: str
    partition: int
    acknowledged: int
    found: int
    """The number of committed records between the first and the last offset of the report,
    including records of other writers.
    """
    verdict: PartitionVerdict
    reason: str = ""

    @property
    def missing(self) -> int:
        """The number of acknowledged records that were not found."""
        return max(0, self.acknowledged - self.found)

    def to_dict(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
        return asdict(self)


def verify_report(
    client: BlockingClient, report: DeliveryCounters, timeout_s: float
) -> Iterator[PartitionCheck]:
    """Yield a check for each partition that has acknowledged records in a report.

    Records are counted from batch headers. Only the first and the last batch are decoded.

    Args:
        client: sends the requests.
        report: the report of a write, or the sum of several reports.
        timeout_s: maximum seconds without progress.

    Raises:
        AuthorizationError: an ACL is missing; the error contains it.
        BrokerUnavailableError: the brokers have not responded in time.
    """
    for partition in report.partitions:
        if partition.persisted:
            yield _check_partition(
                TopicReader(client, partition.topic, timeout_s=timeout_s), partition
            )


def _check_partition(reader: TopicReader, partition: PartitionReport) -> PartitionCheck:
    first, last = partition.first_offset, partition.last_offset
    if first is None or last is None:
        return _partition_check(
            partition, 0, PartitionVerdict.UNKNOWN, "the brokers returned no offsets"
        )
    try:
        log = reader.bounds(partition.partition)
    except UnknownTopicError as error:
        return _partition_check(partition, 0, PartitionVerdict.MISSING, error.message)
    offsets = OffsetRange(
        topic_partition=log.topic_partition, start=max(first, log.start), end=min(last + 1, log.end)
    )
    count = _count_committed(reader, offsets)
    if count >= partition.persisted:
        foreign = count - partition.persisted
        note = f"{plural(foreign, 'record')} of other writers between them" if foreign else ""
        return _partition_check(partition, count, PartitionVerdict.COMPLETE, note)
    if log.end <= last:
        return _beyond_end(reader, partition, count, log.end)
    if log.start > first:
        reason = f"the log starts at offset {log.start:,}: retention has deleted older records"
    else:
        reason = "they were aborted, compacted, or overwritten after an unclean leader election"
    return _partition_check(partition, count, PartitionVerdict.MISSING, reason)


def _beyond_end(
    reader: TopicReader, partition: PartitionReport, count: int, end: int
) -> PartitionCheck:
    """Return the check of a partition whose last readable offset is before the report's."""
    written = reader.high_watermark(TopicPartition(partition.topic, partition.partition))
    if partition.last_offset is not None and written > partition.last_offset:
        reason = f"an open transaction prevents reading beyond offset {end:,}"
        return _partition_check(partition, count, PartitionVerdict.OPEN, reason)
    reason = (
        f"the log ends at offset {written:,}: it was truncated (unclean leader election), "
        "or the topic was recreated"
    )
    return _partition_check(partition, count, PartitionVerdict.MISSING, reason)


def _count_committed(reader: TopicReader, offsets: OffsetRange) -> int:
    """Return the number of committed records in a range."""
    total = 0
    for batch, header in reader.batches(offsets):
        if offsets.start <= header.base_offset and header.last_offset < offsets.end:
            total += header.record_count
        else:
            total += sum(
                offsets.start <= record.offset < offsets.end for record in decode_batch(batch)
            )
    return total


def _partition_check(
    partition: PartitionReport, count: int, verdict: PartitionVerdict, reason: str
) -> PartitionCheck:
    return PartitionCheck(
        topic=partition.topic,
        partition=partition.partition,
        acknowledged=partition.persisted,
        found=count,
        verdict=verdict,
        reason=reason,
    )
