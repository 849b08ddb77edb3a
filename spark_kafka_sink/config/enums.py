"""Enums for options that accept a fixed set of names."""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum


class Codec(IntEnum):
    """Values of compression.type.

    Each enum value is the id in a batch's attributes (Kafka's CompressionType).
    """

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> Codec:
        """Return the codec that Java calls `name`, such as "lz4"."""
        return cls[name.upper()]


class Acks(IntEnum):
    """The acknowledgements that a Produce request requires, with their values in the protocol."""

    ALL = -1
    NONE = 0
    LEADER = 1

    @classmethod
    def named(cls, name: str) -> Acks:
        """Return the value for Java's spelling: all, -1, 0 or 1."""
        return cls.ALL if name == "all" else cls(int(name))


class PartitionerName(Enum):
    """The partitioners of partitioner.class (Java) and partitioner (librdkafka)."""

    DEFAULT = ""
    """Murmur2 of the key, as in Java. For rows without a key, the partition changes after about
    batch.size bytes (KIP-794).
    """
    ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    RANDOM = "random"
    CONSISTENT = "consistent"
    """CRC-32 of the key; a null key is hashed as an empty key."""
    CONSISTENT_RANDOM = "consistent_random"
    """Like CONSISTENT, but sticky for null and empty keys."""
    MURMUR2 = "murmur2"
    """Java's hash; a null key is hashed as an empty key."""
    MURMUR2_RANDOM = "murmur2_random"
    """Java's hash; null keys are sticky."""
    FNV1A = "fnv1a"
    """FNV-1a of the key; a null key is hashed as an empty key."""
    FNV1A_RANDOM = "fnv1a_random"
    """Same as FNV1A; null keys are sticky."""
    FUNCTION = "module:function"
    """The user's function, called with Arrow columns."""


JAVA_PARTITIONERS = {
    "": PartitionerName.DEFAULT,
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": PartitionerName.DEFAULT,
    PartitionerName.ROUND_ROBIN.value: PartitionerName.ROUND_ROBIN,
}
"""Values of partitioner.class. Kafka 4.0 removed the class whose rules became the default."""
LIBRDKAFKA_PARTITIONERS = tuple(
    choice
    for choice in PartitionerName
    if choice not in (*JAVA_PARTITIONERS.values(), PartitionerName.FUNCTION)
)


class RecoveryStrategy(StrEnum):
    """Values of metadata.recovery.strategy (KIP-899)."""

    REBOOTSTRAP = "rebootstrap"
    NONE = "none"


class ReportTasks(StrEnum):
    """The tasks that the delivery report lists."""

    ALL = "all"
    SLOWEST = "slowest"
    NONE = "none"


class SummaryMode(StrEnum):
    """Values of summary, which sets what the driver logs for each write or micro-batch."""

    AUTO = "auto"
    """Log everything for a batch write or a failure, and one line for a micro-batch."""
    OFF = "off"
    LINE = "line"
    FULL = "full"


class PreflightMode(StrEnum):
    """Values of preflight, which sets the effect of the checks before the first task."""

    OFF = "off"
    WARN = "warn"
    """Log all problems and continue."""
    AUTO = "auto"
    """Fail the write if a broker's response shows the cause of the problem; log other problems."""
    FAIL = "fail"
    """Fail the write if every task would fail, and log other problems."""


class ProfileName(StrEnum):
    """Values of profile: the names of sets of options, each of which is a file in `conf/`."""

    NONE = "none"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    SAFE = "safe"
    JAVA = "java"
