"""The size and cost of the batches that a dry run sampled, for each codec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.report.metrics.merging import merge_groups, rules_of, summed_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecCost:
    """Counters for one codec. All codecs in a report have compressed the same batches."""

    codec: str
    """The compression.type. The configured codec has the configured level, and all other codecs
    have their default levels.
    """
    batches: int = summed_field()
    """Number of batches compressed with this codec."""
    records: int = summed_field()
    """Number of records in these batches."""
    bytes_uncompressed: int = summed_field()
    """Size of these batches in bytes before compression, including headers."""
    bytes_compressed: int = summed_field()
    """Size of these batches in bytes as they would be sent."""
    cpu_ns: int = summed_field()
    """CPU time of the compression in nanoseconds."""

    @property
    def ratio(self) -> float:
        """Size before compression divided by size after compression."""
        return self.bytes_uncompressed / max(1, self.bytes_compressed)

    @property
    def us_per_record(self) -> float:
        """CPU microseconds per record."""
        return self.cpu_ns / 1000 / max(1, self.records)

    @property
    def ns_per_byte(self) -> float:
        """CPU nanoseconds per byte before compression."""
        return self.cpu_ns / max(1, self.bytes_uncompressed)

    @classmethod
    def merge_all(cls, costs: Iterable[Self]) -> tuple[Self, ...]:
        """Add up the costs, one per codec, in the order of Kafka's codec numbers."""
        return tuple(sorted(merge_groups(cls, costs), key=lambda cost: Codec.named(cost.codec)))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Parse the JSON object, which has the same fields."""
        counters = {name: int(data[name]) for name in rules_of(cls)}
        return cls(codec=Codec.named(data["codec"]).name.lower(), **counters)
