"""What the writer hands to the accumulator: encoded records on their way into a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from spark_kafka_sink.producer.buffer.batch import TopicPartition


class EncodedSlice(NamedTuple):
    """A slice of encoded records for one batch, as the plan laid it out; times in milliseconds."""

    partition: TopicPartition
    data: Buffer
    records: int
    opens: bool
    base_timestamp: int
    max_timestamp: int
