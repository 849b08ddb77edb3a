"""What a Produce request wants written, each partition once.

A request may name a partition twice. Kafka keeps its records in a map: of those that look like one
batch the last ones count, and those that do not are what the answer tells of
(``KafkaApis.handleProduceRequest``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.broker.partition.log_validator import single_batch
from spark_kafka_sink.broker.partition.refused_batch import RefusedBatchError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProduceData:
    """The records to append, and why others for the same partition can't be."""

    index: int
    records: memoryview | None
    refused: RefusedBatchError | None = None


class TopicProduceData(NamedTuple):
    """A topic's item of the request, which names it, and its partitions."""

    item: Any
    partitions: list[PartitionProduceData]


def produce_data(topic_data: Sequence[Any]) -> list[TopicProduceData]:
    """The topics of a request, in its order."""
    if len(topic_data) == 1 and len(topic_data[0].partition_data) == 1:
        return [_only(topic_data[0])]
    items: dict[object, Any] = {}
    records: dict[object, dict[int, list[memoryview | None]]] = {}
    for item in topic_data:
        key = (getattr(item, "name", None), getattr(item, "topic_id", None))
        items.setdefault(key, item)
        partitions = records.setdefault(key, {})
        for data in item.partition_data:
            partitions.setdefault(data.index, []).append(data.records)
    return [
        TopicProduceData(
            item=item, partitions=[_chosen(i, all_) for i, all_ in records[key].items()]
        )
        for key, item in items.items()
    ]


def _only(item: Any) -> TopicProduceData:
    """A topic with one partition, which can't be named twice."""
    data = item.partition_data[0]
    only = PartitionProduceData(index=data.index, records=data.records)
    return TopicProduceData(item=item, partitions=[only])


def _chosen(index: int, all_records: list[memoryview | None]) -> PartitionProduceData:
    if len(all_records) == 1:
        return PartitionProduceData(index=index, records=all_records[0])
    good, refused = [], None
    for records in all_records:
        try:
            single_batch(records)
            good.append(records)
        except RefusedBatchError as error:
            refused = error
    chosen = good[-1] if good else all_records[-1]
    return PartitionProduceData(index=index, records=chosen, refused=refused if good else None)
