"""The table of all options except the security options, with Java's defaults and ours.

Names, types, defaults, ranges and importance of the `kafka.*` options are those of Kafka 4.3's
ProducerConfig. `bulk` holds the default of this producer where it differs from Java's because the
producer writes in bulk.
"""

from __future__ import annotations

from typing import Any

from spark_kafka_sink.config.dead_letters import DEAD_LETTER_OPTIONS
from spark_kafka_sink.config.enums import (
    JAVA_PARTITIONERS,
    Partitioner,
    Preflight,
    Profile,
    ReportTasks,
    Summary,
)
from spark_kafka_sink.config.exactly_once import EXACTLY_ONCE_OPTIONS, TRANSACTION_TIMEOUT
from spark_kafka_sink.config.option import MAX_INT, Importance, Kind, Option, Value
from spark_kafka_sink.config.throttling import THROTTLING_OPTIONS
from spark_kafka_sink.config.topic_creation import TOPIC_CREATION_OPTIONS

HIGH, LOW = Importance.HIGH, Importance.LOW
BATCH_WRITE_LINGER_MS = 1_000


def _int(name: str, java: Value, doc: str, **more: Any) -> Option:
    return Option(name=name, kind=Kind.INT, java=java, doc=doc, **more)


def _long(name: str, java: Value, doc: str, **more: Any) -> Option:
    return Option(name=name, kind=Kind.LONG, java=java, doc=doc, **more)


def _flag(name: str, java: Value, doc: str, **more: Any) -> Option:
    return Option(name=name, kind=Kind.BOOLEAN, java=java, doc=doc, **more)


def _text(name: str, java: Value, doc: str, **more: Any) -> Option:
    return Option(name=name, kind=Kind.STRING, java=java, doc=doc, **more)


_DELIVERY = (
    _text(
        "acks",
        "all",
        "Which replicas must hold a batch before it counts as delivered: all in-sync ones, the "
        "leader alone (1), or none (0: counted as sent, never as delivered).",
        choices=("all", "-1", "0", "1"),
        importance=LOW,
    ),
    _flag(
        "enable.idempotence",
        True,
        "Number the batches so that the broker drops what a retry sends twice and keeps the order.",
        importance=LOW,
    ),
    _int(
        "retries",
        2147483647,
        "How often a batch is sent again after a passing error.",
        importance=HIGH,
    ),
    _int(
        "delivery.timeout.ms",
        120_000,
        "Time from handing a record over until its delivery has succeeded or failed. It begins "
        "again while its broker acknowledges records before it, or asks for pauses (a quota).",
    ),
    _int("request.timeout.ms", 30_000, "Time to wait for the answer to one request."),
    _long(
        "retry.backoff.ms",
        100,
        "Pause before the first retry; it doubles with each one.",
        importance=LOW,
    ),
    _long("retry.backoff.max.ms", 1_000, "Longest pause between two retries.", importance=LOW),
    _int(
        "max.in.flight.requests.per.connection",
        5,
        "Requests under way to one broker; at most 5 with idempotence.",
        low=1,
        importance=LOW,
    ),
    _flag(
        "enable.gapless.guarantee",
        False,
        "librdkafka's: a batch that fails for good ends the write instead of leaving a gap; one "
        "that timed out may leave one.",
        importance=LOW,
        of_java=False,
    ),
    _int(
        TRANSACTION_TIMEOUT,
        60_000,
        "With exactly-once: time from a task's first row to the driver's decision, after which the "
        "broker aborts the transaction; at least 60000 unless atomicBatch is set. 0: the longest "
        "that the broker allows, its transaction.max.timeout.ms.",
        bulk=0,
        importance=LOW,
    ),
)

_BATCHING = (
    _int(
        "batch.size",
        16_384,
        "Uncompressed bytes at which a batch is closed and sent.",
        bulk=1_048_576,
    ),
    _int(
        "batch.num.messages",
        MAX_INT,
        "librdkafka's: records at which a batch is closed and sent.",
        low=1,
        of_java=False,
    ),
    _long(
        "linger.ms",
        5,
        "Time a batch may wait for more records; decimals are allowed, as in 0.5.",
        bulk=50,
        batch_write=BATCH_WRITE_LINGER_MS,
        fractional=True,
    ),
    _long(
        "buffer.memory",
        33_554_432,
        "Bytes of records held in memory, compressed copies and requests under way included.",
        bulk=67_108_864,
        importance=HIGH,
    ),
    _long(
        "max.block.ms",
        60_000,
        "Time to wait for room in the buffer while none is freed, or for the first metadata of a "
        "topic; pauses that brokers ask for (a quota) do not count.",
    ),
    _int(
        "max.request.size",
        1_048_576,
        "Largest record, in bytes, and largest request of several batches, 4 MiB if this is not "
        "set and enable.idempotence is true; one batch goes alone whatever its size.",
    ),
)

_COMPRESSION = (
    _text(
        "compression.type",
        "none",
        "Codec of the batches; one that it makes larger is sent uncompressed.",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        importance=HIGH,
    ),
    _int(
        "compression.level",
        -1,
        "librdkafka's: level of whichever codec, numbered as there; -1: the options below say it.",
        low=-131_072,
        high=22,
        of_java=False,
    ),
    _int(
        "compression.gzip.level",
        -1,
        "Level with gzip; -1 is zlib's own default.",
        low=1,
        high=9,
        also=-1,
    ),
    _int(
        "compression.lz4.level",
        9,
        "Level with lz4; 9 is the fast compressor, as in Java, any other the slower, smaller one.",
        low=1,
        high=17,
    ),
    _int(
        "compression.zstd.level",
        3,
        "Level with zstd; the higher, the slower and smaller.",
        low=-131_072,
        high=22,
    ),
)

_ROUTING = (
    _text(
        "partitioner.class",
        Partitioner.DEFAULT.value,
        "How rows without a partition are spread; empty for murmur2 of the key, sticky without.",
        choices=tuple(choice.value for choice in JAVA_PARTITIONERS),
        hints={
            "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "Leave the option "
            "out: it is the default.",
            "org.apache.kafka.clients.producer.UniformStickyPartitioner": "Use "
            "kafka.partitioner.ignore.keys=true instead.",
            "": "Classes in Java can't be used: write a function in Python, and name it with "
            "kafka.partitioner=module:function.",
        },
    ),
    _text(
        "partitioner",
        "",
        "librdkafka's partitioner: random, consistent, consistent_random, murmur2, murmur2_random, "
        "fnv1a or fnv1a_random; or module:function, called once per chunk and topic with (key, "
        "value, partition_count), the columns as Arrow binary arrays (key None without one), to "
        "return int32 partitions, -1 to leave one as for rows without a key.",
        of_java=False,
    ),
    _flag("partitioner.ignore.keys", False, "Spread rows as if they had no key."),
    _flag(
        "partitioner.adaptive.partitioning.enable",
        True,
        "Give rows without a key the less often to a partition, the more batches wait for it; "
        "false: each partition with a leader is as likely, also one that stalls.",
        importance=LOW,
    ),
    _long(
        "partitioner.availability.timeout.ms",
        0,
        "Time after which a broker that owes an answer gets no rows without a key; 0 for never.",
        importance=LOW,
    ),
    _flag(
        "allow.auto.create.topics",
        True,
        "Let the broker create a topic it does not know.",
        of_java=False,
    ),
    _long(
        "metadata.max.age.ms",
        300_000,
        "Age at which leaders and partitions are asked anew.",
        importance=LOW,
    ),
    _text(
        "metadata.recovery.strategy",
        "rebootstrap",
        "What to do when no known broker can be asked: begin anew from bootstrap.servers, or not.",
        choices=("rebootstrap", "none"),
        importance=LOW,
    ),
    _long(
        "metadata.recovery.rebootstrap.trigger.ms",
        300_000,
        "Time without metadata after which all known brokers are forgotten.",
        importance=LOW,
    ),
)

_CONNECTION = (
    Option(
        name="bootstrap.servers",
        kind=Kind.LIST,
        java=None,
        importance=HIGH,
        doc="Brokers to ask first, host:port separated by commas. Required.",
    ),
    _text(
        "client.id",
        "",
        "Name under which the brokers log, count and limit this client. If not set, tasks have "
        "kafkaprod-APPLICATION, or kafkaprod-APPLICATION-QUERY in a query with a name, by "
        "spark.app.name and queryName; the driver has kafkaprod-admin.",
    ),
    _long(
        "reconnect.backoff.ms",
        50,
        "Pause before connecting to a broker again; it doubles.",
        importance=LOW,
    ),
    _long(
        "reconnect.backoff.max.ms",
        1_000,
        "Longest pause between two connection attempts.",
        importance=LOW,
    ),
    _long(
        "connections.max.idle.ms",
        540_000,
        "Idle time after which a connection is closed; -1 for never.",
        low=-1,
    ),
    _long("socket.connection.setup.timeout.ms", 10_000, "Time to wait for a connection."),
    _int(
        "send.buffer.bytes",
        131_072,
        "Socket's send buffer; -1 lets the system tune it.",
        bulk=-1,
        low=-1,
    ),
    _int(
        "receive.buffer.bytes",
        32_768,
        "Socket's receive buffer; -1 lets the system tune it.",
        bulk=-1,
        low=-1,
    ),
)

_INSIGHT = (
    _int(
        "statistics.interval.ms",
        0,
        "Time between two statistics lines (JSON, logger spark_kafka_sink.statistics, or files at "
        "statisticsPath); 0 for none.",
        high=86_400_000,
        importance=LOW,
        of_java=False,
    ),
    _text(
        "debug",
        "",
        "Contexts to log event by event, with commas between: broker, metadata, topic, queue, msg, "
        "protocol, eos, security, all. librdkafka's other names are accepted.",
        importance=LOW,
        of_java=False,
    ),
)

PRODUCER_OPTIONS: tuple[Option, ...] = (
    *_CONNECTION,
    *_DELIVERY,
    *_BATCHING,
    *_COMPRESSION,
    *_ROUTING,
    *_INSIGHT,
)
"""Options given as `kafka.<name>`."""

SINK_OPTIONS: tuple[Option, ...] = (
    _text("topic", None, "Topic of every row; it wins over a topic column.", importance=HIGH),
    _flag(
        "includeHeaders",
        False,
        "Accepted as Spark's own format does; a headers column is written either way.",
    ),
    _flag(
        "useTimestampColumn",
        False,
        "Write the timestamp column as the records' time; otherwise it is ignored.",
    ),
    _text(
        "reportPath",
        None,
        "Where the driver writes the delivery report as JSON: a path or a URI pyarrow.fs knows.",
    ),
    _text(
        "statisticsPath",
        None,
        "Folder to which each task writes its statistics as JSON lines, in librdkafka's structure: "
        "a path or a URI pyarrow.fs knows. Without kafka.statistics.interval.ms, one line a task.",
    ),
    _text(
        "report.tasks",
        ReportTasks.SLOWEST.value,
        "Tasks that the delivery report has a line of: the ten slowest, all up to 10,000, or none.",
        choices=tuple(ReportTasks),
    ),
    _text(
        "summary",
        Summary.AUTO.value,
        "What the driver logs of each write: nothing, a line, or all; auto is all of a batch write "
        "and of what fails, and a line of a micro-batch.",
        choices=tuple(Summary),
    ),
    _text(
        "profile",
        Profile.NONE.value,
        "Defaults for a purpose, from conf/; options set beside it win.",
        choices=tuple(Profile),
    ),
    _text(
        "preflight",
        Preflight.WARN.value,
        "Let the driver connect and look at the topic before any task. warn: log what is wrong and "
        "go on; fail: end the write where every task would fail; off: no check.",
        choices=tuple(Preflight),
    ),
    _flag(
        "dryRun",
        False,
        "Of a batch write: read all rows and make the batches, send none, and report what would go "
        "where, with the ratio and the cost of each codec.",
    ),
    _text(
        "metrics.prometheus.textfile",
        None,
        "File for node_exporter's textfile collector; the driver writes it after each write.",
    ),
    _text(
        "metrics.prometheus.pushgateway",
        None,
        "Pushgateway, host:port or a URL, that the driver pushes to after each write.",
    ),
    _flag(
        "metrics.opentelemetry",
        False,
        "Record the driver's metrics after each write with OpenTelemetry's meter provider.",
    ),
    *TOPIC_CREATION_OPTIONS,
    *EXACTLY_ONCE_OPTIONS,
    *DEAD_LETTER_OPTIONS,
    *THROTTLING_OPTIONS,
)
"""Options given by their own names, in any case."""

DEVIATIONS: tuple[Option, ...] = tuple(row for row in PRODUCER_OPTIONS if row.bulk is not None)
"""Options whose default differs from Java's; profile=java restores Java's default."""
