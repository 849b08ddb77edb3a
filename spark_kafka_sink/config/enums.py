"""The options that are a choice among names, as enums."""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum


class Codec(IntEnum):
    """compression.type; the number is the one in a batch's attributes (Kafka's CompressionType)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> Codec:
        """The codec that Java calls `name`, such as "lz4"."""
        return cls[name.upper()]


class Acks(IntEnum):
    """How many acknowledgements a Produce request asks for; the number is the protocol's."""

    ALL = -1
    NONE = 0
    LEADER = 1

    @classmethod
    def named(cls, name: str) -> Acks:
        """The value that Java spells `name`: all, -1, 0 or 1."""
        return cls.ALL if name == "all" else cls(int(name))


class Partitioner(Enum):
    """partitioner.class by Java's class name, or partitioner by librdkafka's word."""

    DEFAULT = ""
    """Murmur2 of the key as Java's; without a key sticky, switching at batch.size (KIP-794)."""
    ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    RANDOM = "random"
    CONSISTENT = "consistent"
    """CRC-32 of the key; a null key is hashed as an empty one."""
    CONSISTENT_RANDOM = "consistent_random"
    """As CONSISTENT; null and empty keys are sticky."""
    MURMUR2 = "murmur2"
    """Java's hash; without a key that of nothing."""
    MURMUR2_RANDOM = "murmur2_random"
    """Java's hash; null keys are sticky."""
    FNV1A = "fnv1a"
    """FNV-1a of the key; without one that of nothing."""
    FNV1A_RANDOM = "fnv1a_random"
    """As FNV1A; null keys are sticky."""
    FUNCTION = "module:function"
    """The user's own, called with Arrow columns."""


JAVA_PARTITIONERS = (Partitioner.DEFAULT, Partitioner.ROUND_ROBIN)
LIBRDKAFKA_PARTITIONERS = tuple(
    choice for choice in Partitioner if choice not in (*JAVA_PARTITIONERS, Partitioner.FUNCTION)
)


class RecoveryStrategy(StrEnum):
    """metadata.recovery.strategy (KIP-899)."""

    REBOOTSTRAP = "rebootstrap"
    NONE = "none"


class ReportTasks(StrEnum):
    """Which tasks a delivery report has a line of."""

    ALL = "all"
    SLOWEST = "slowest"
    NONE = "none"


class Summary(StrEnum):
    """What the driver logs at the end of a write or micro-batch."""

    AUTO = "auto"
    """All of a batch write and of what fails, a line of a micro-batch."""
    OFF = "off"
    LINE = "line"
    FULL = "full"


class Preflight(StrEnum):
    """preflight: what the checks of the brokers before the first task do."""

    OFF = "off"
    WARN = "warn"
    """Log what is wrong, and go on."""
    FAIL = "fail"
    """End the write where every task would fail, log the rest."""


class Profile(StrEnum):
    """A named set of options, one file each in `conf/`."""

    NONE = "none"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    SAFE = "safe"
    JAVA = "java"
