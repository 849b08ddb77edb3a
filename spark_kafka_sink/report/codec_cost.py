"""What a codec makes of the batches that a dry run has sampled, and what that costs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.config.enums import Codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecCost:
    """Counters of one codec; all codecs of a report have compressed the same batches."""

    codec: str
    """compression.type: the one that is set at its level, the others at their defaults."""
    batches: int = 0
    """Batches that were compressed with it."""
    records: int = 0
    """Their records."""
    bytes_uncompressed: int = 0
    """Their bytes before compression, headers included."""
    bytes_compressed: int = 0
    """Their bytes as they would be sent."""
    cpu_ns: int = 0
    """CPU time that compressing took, in nanoseconds."""

    @property
    def ratio(self) -> float:
        """Bytes before over bytes after."""
        return self.bytes_uncompressed / max(1, self.bytes_compressed)

    @property
    def us_per_record(self) -> float:
        """Microseconds of CPU that a record costs."""
        return self.cpu_ns / 1000 / max(1, self.records)

    @property
    def ns_per_byte(self) -> float:
        """Nanoseconds of CPU that a byte costs, before compression."""
        return self.cpu_ns / max(1, self.bytes_uncompressed)

    @classmethod
    def merge_all(cls, costs: Iterable[Self]) -> tuple[Self, ...]:
        """One for each codec, in the order of their numbers in Kafka."""
        groups: defaultdict[str, list[Self]] = defaultdict(list)
        for cost in costs:
            groups[cost.codec].append(cost)
        return tuple(
            cls(
                codec=codec,
                **{name: sum(getattr(one, name) for one in groups[codec]) for name in _COUNTERS},
            )
            for codec in sorted(groups, key=Codec.named)
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` made."""
        counters = {name: int(data[name]) for name in _COUNTERS}
        return cls(codec=Codec.named(data["codec"]).name.lower(), **counters)


_COUNTERS = tuple(field.name for field in fields(CodecCost) if field.name != "codec")
