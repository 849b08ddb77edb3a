"""The tables of all options except security options, with the defaults of Java and of this sink.

An option is declared together with the field of the configuration that it sets; the docstring is
the user's documentation. Options whose value other fields contain are class variables.

Names, types, defaults and ranges of the `kafka.*` options are taken from Kafka 4.3's
ProducerConfig. `sink_default` is this sink's default if it differs from Java's.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import ClassVar

from spark_kafka_sink.config import enums
from spark_kafka_sink.config.client_config import ClientConfig
from spark_kafka_sink.config.dead_letters import DEAD_LETTER_OPTIONS
from spark_kafka_sink.config.exactly_once import EXACTLY_ONCE_OPTIONS, TRANSACTION_TIMEOUT
from spark_kafka_sink.config.formats import FORMAT_OPTIONS
from spark_kafka_sink.config.option_definition import (
    Option,
    boolean_field,
    enum_field,
    int_field,
    int_option,
    long_field,
    options_of,
    text_field,
    text_option,
)
from spark_kafka_sink.config.schema_registry import REGISTRY_OPTIONS
from spark_kafka_sink.config.throttling import THROTTLING_OPTIONS
from spark_kafka_sink.config.topic_creation import TOPIC_CREATION_OPTIONS

BATCH_WRITE_LINGER_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions(ClientConfig):
    """Options that are set as `kafka.<name>`, in addition to those of a client."""

    # Delivery
    acks: enums.Acks = text_field(
        "acks", "all", choices=("all", "-1", "0", "1"), field_default=MISSING
    )
    """Acknowledgments required before a batch counts as delivered: all in-sync replicas (all), the
    leader only (1), or none (0: records count as sent, never as delivered).
    """
    enable_idempotence: bool = boolean_field("enable.idempotence", True)
    """Use an idempotent producer: brokers drop duplicates of retried batches and keep the order."""
    retries: int = int_field("retries", 2_147_483_647)
    """Maximum number of retries of a batch after a retriable error."""
    delivery_timeout_ms: int = int_field("delivery.timeout.ms", 120_000)
    """Maximum time to deliver a record after it was appended. The timeout restarts after a pause
    because of a quota and, until the record is sent, when its broker acknowledges other records.
    """
    max_in_flight: int = int_field("max.in.flight.requests.per.connection", 5, low=1)
    """Maximum number of requests in flight to a broker; at most 5 with idempotence."""
    enable_gapless_guarantee: bool = boolean_field(
        "enable.gapless.guarantee", False, is_java_option=False
    )
    """librdkafka option: fail the write if a batch fails permanently, so that no gap is left in a
    partition; a batch that timed out may still leave a gap.
    """
    transaction_timeout_ms: ClassVar[Option] = int_option(
        TRANSACTION_TIMEOUT, 60_000, sink_default=0
    )
    """With exactly-once: maximum time from the first row of a task to the driver's decision, after
    which the broker aborts the transaction. At least 60000 unless atomicBatch or twoPhaseCommit is
    set. 0: the broker's maximum (transaction.max.timeout.ms).
    """

    # Batches
    batch_size: int = int_field("batch.size", 16_384, sink_default=1_048_576)
    """Uncompressed size at which a batch is closed and sent."""
    batch_num_messages: int = int_field(
        "batch.num.messages", 2_147_483_647, low=1, is_java_option=False
    )
    """librdkafka option: number of records at which a batch is closed and sent."""
    linger_ms: float = long_field(
        "linger.ms", 5, sink_default=50, batch_write=BATCH_WRITE_LINGER_MS, fractional=True
    )
    """Maximum time that a batch waits for more records; may be a decimal, such as 0.5."""
    buffer_memory: int = long_field("buffer.memory", 33_554_432, sink_default=67_108_864)
    """Memory for buffered records, including compressed copies and requests in flight."""
    max_block_ms: int = long_field("max.block.ms", 60_000)
    """Maximum time to wait for buffer memory while none is freed, or for the first metadata of a
    topic; time during which a quota throttles the client does not count.
    """
    max_request_size: int = int_field("max.request.size", 1_048_576)
    """Maximum size of a record, and of a request with several batches (4 MiB for requests if the
    option is not set and enable.idempotence is true). A larger batch is sent in its own request.
    """

    # Compression
    compression_type: enums.Codec = text_field(
        "compression.type",
        "none",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        field_default=MISSING,
    )
    """Compression codec of the batches; a batch that the codec would enlarge is sent uncompressed.
    """
    compression_level: int | None = int_field(
        "compression.level", -1, low=-131_072, high=22, is_java_option=False, field_default=MISSING
    )
    """librdkafka option: compression level of the codec in use, in librdkafka's numbering; -1: use
    the option of the codec below.
    """
    compression_gzip_level: ClassVar[Option] = int_option(
        "compression.gzip.level", -1, low=1, high=9, extra_value=-1
    )
    """gzip level; -1: zlib's default."""
    compression_lz4_level: ClassVar[Option] = int_option("compression.lz4.level", 9, low=1, high=17)
    """lz4 level; 9: the fast compressor, as in Java; other levels: slower, with a higher
    compression ratio.
    """
    compression_zstd_level: ClassVar[Option] = int_option(
        "compression.zstd.level", 3, low=-131_072, high=22
    )
    """zstd level; higher levels are slower and compress better."""

    # Partitions
    partitioner_class: ClassVar[Option] = text_option(
        "partitioner.class",
        enums.PartitionerName.DEFAULT.value,
        choices=tuple(enums.JAVA_PARTITIONERS),
        hints={
            "org.apache.kafka.clients.producer.UniformStickyPartitioner": "Use "
            "kafka.partitioner.ignore.keys=true instead.",
            "": "Java classes cannot be loaded: write a Python function and set "
            "kafka.partitioner=module:function.",
        },
    )
    """Partitioner class for rows without a partition; empty: murmur2 hash of the key, or sticky
    partitions for rows without a key.
    """
    partitioner: enums.PartitionerName = text_field(
        "partitioner", "", is_java_option=False, field_default=MISSING
    )
    """librdkafka option: random, consistent, consistent_random, murmur2, murmur2_random, fnv1a or
    fnv1a_random; or module:function, a Python function called once per chunk and topic with (key,
    value, partition_count). Key and value are Arrow binary arrays (key is None if no row of the
    chunk has a key). It returns int32 partitions; for -1, the sink chooses the partition as for a
    row without a key.
    """
    partitioner_ignore_keys: bool = boolean_field("partitioner.ignore.keys", False)
    """Ignore keys when choosing partitions."""
    partitioner_adaptive_partitioning_enable: bool = boolean_field(
        "partitioner.adaptive.partitioning.enable", True
    )
    """Send fewer rows without a key to partitions with more queued batches; false: choose all
    partitions that have a leader equally often, even stalled ones.
    """
    partitioner_availability_timeout_ms: int = long_field("partitioner.availability.timeout.ms", 0)
    """Exclude a broker's partitions for rows without a key if it has not responded for this long;
    0: never exclude them.
    """

    # Monitoring
    statistics_interval_ms: int = int_field(
        "statistics.interval.ms", 0, high=86_400_000, is_java_option=False
    )
    """Interval between two statistics lines (JSON, to the logger spark_kafka_sink.statistics, or to
    files at statisticsPath); 0: none.
    """


PRODUCER_OPTIONS = (*options_of(ClientConfig), *options_of(ProducerOptions))
"""Options that are set as `kafka.<name>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The sink's own options, except those of other modules."""

    topic: str | None = text_field("topic", None)
    """Topic of every row; takes precedence over a topic column."""
    include_headers: bool = boolean_field("includeHeaders", False)
    """Accepted for compatibility with format("kafka"); a headers column is always written."""
    use_timestamp_column: bool = boolean_field("useTimestampColumn", False)
    """Write the timestamp column as record timestamps; by default the column is ignored."""
    report_path: str | None = text_field("reportPath", None, field_default=None)
    """File, or directory of a stream, to which the driver writes the delivery report as JSON: a
    path or a URI that pyarrow.fs supports.
    """
    statistics_path: str | None = text_field("statisticsPath", None, field_default=None)
    """Directory to which each task writes its statistics as JSON lines, in librdkafka's structure:
    a path or a URI that pyarrow.fs supports. Without kafka.statistics.interval.ms: one line per
    task.
    """
    report_tasks: enums.ReportTasks = enum_field("report.tasks", enums.ReportTasks.SLOWEST)
    """Tasks listed in the delivery report: the ten slowest, all (up to 10,000), or none."""
    summary: enums.SummaryMode = enum_field("summary", enums.SummaryMode.AUTO)
    """Summary that the driver logs for each write: nothing, one line, or everything; auto:
    everything for batch writes and failures, but one line for a micro-batch.
    """
    profile: enums.ProfileName = enum_field("profile", enums.ProfileName.NONE)
    """Set of defaults from conf/; explicitly set options take precedence."""
    preflight: enums.PreflightMode = enum_field("preflight", enums.PreflightMode.AUTO)
    """Connect and check the topics on the driver before any task. auto: fail the write if brokers
    respond that a topic is missing, a permission is denied or the login is wrong, and log other
    problems; warn: log all problems; fail: also fail the write if the driver reaches no broker;
    off: no check.
    """
    dry_run: bool = boolean_field("dryRun", False)
    """Batch writes: read all rows and build the batches without sending them, and report the
    destinations with the ratio and cost of each codec.
    """
    prometheus_textfile: str | None = text_field(
        "metrics.prometheus.textfile", None, field_default=None
    )
    """File (*.prom) for node_exporter's textfile collector, updated after each successful write."""
    prometheus_pushgateway: str | None = text_field(
        "metrics.prometheus.pushgateway", None, field_default=None
    )
    """Pushgateway (host:port or URL) for the metrics, updated after each successful write."""
    opentelemetry: bool = boolean_field("metrics.opentelemetry", False)
    """Record metrics after each successful write with OpenTelemetry's global meter provider."""


SINK_OPTIONS = (
    *options_of(WriteOptions),
    *FORMAT_OPTIONS,
    *REGISTRY_OPTIONS,
    *TOPIC_CREATION_OPTIONS,
    *EXACTLY_ONCE_OPTIONS,
    *DEAD_LETTER_OPTIONS,
    *THROTTLING_OPTIONS,
)
"""The sink's own options. Their names are case-insensitive."""
