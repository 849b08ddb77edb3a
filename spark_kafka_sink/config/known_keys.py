"""Names that other parts of Kafka know: neither supported here nor a user's mistake.

From Kafka 4.3's ProducerConfig and ConsumerConfig, and from librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

IGNORED_PRODUCER_KEYS = frozenset(
    {
        "client.dns.lookup",
        "enable.metrics.push",
        "metadata.max.idle.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "security.providers",
        "socket.connection.setup.timeout.max.ms",
    }
)
"""Producer options of Java's that change speed or monitoring alone, so ignoring them is safe."""

IGNORED_CONSUMER_KEYS = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "client.rack",
        "default.api.timeout.ms",
        "enable.auto.commit",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "value.deserializer",
    }
)
"""Consumer options: present where one set of options serves both reading and writing."""

IGNORED_LIBRDKAFKA_KEYS = frozenset(
    {
        "api.version.fallback.ms",
        "api.version.request",
        "api.version.request.timeout.ms",
        "broker.address.family",
        "broker.address.ttl",
        "broker.version.fallback",
        "builtin.features",
        "delivery.report.only.error",
        "enable.random.seed",
        "enabled_events",
        "internal.termination.signal",
        "log.connection.close",
        "log.queue",
        "log.thread.name",
        "log_level",
        "message.copy.max.bytes",
        "produce.offset.report",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.messages",
        "queuing.strategy",
        "receive.message.max.bytes",
        "reconnect.backoff.jitter.ms",
        "socket.blocking.max.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "sticky.partitioning.linger.ms",
        "topic.blacklist",
        "topic.metadata.propagation.max.ms",
        "topic.metadata.refresh.fast.cnt",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.sparse",
    }
)
"""Producer options of librdkafka's without a counterpart; they change speed or monitoring alone."""

_LIBRDKAFKA_CONSUMER_KEYS = frozenset(
    {
        "auto.commit.enable",
        "consume.callback.max.messages",
        "coordinator.query.interval.ms",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "fetch.error.backoff.ms",
        "fetch.message.max.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.protocol.type",
        "offset.store.method",
        "offset.store.path",
        "offset.store.sync.interval.ms",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "share.acknowledgement.mode",
    }
)

IGNORED_KEYS = (
    IGNORED_PRODUCER_KEYS
    | IGNORED_CONSUMER_KEYS
    | IGNORED_LIBRDKAFKA_KEYS
    | _LIBRDKAFKA_CONSUMER_KEYS
)

CALLBACKS = frozenset(
    {
        "background_event_cb",
        "closesocket_cb",
        "connect_cb",
        "consume_cb",
        "default_topic_conf",
        "dr_cb",
        "dr_msg_cb",
        "error_cb",
        "log_cb",
        "msg_order_cmp",
        "offset_commit_cb",
        "opaque",
        "open_cb",
        "partitioner_cb",
        "rebalance_cb",
        "resolve_cb",
        "socket_cb",
        "stats_cb",
        "throttle_cb",
    }
)
"""What librdkafka lists among its options, and only a program can set."""

COUNTERPARTS = {
    "block.on.buffer.full": "kafka.max.block.ms",
    "broker.list": "kafka.bootstrap.servers",
    "brokers": "kafka.bootstrap.servers",
    "compression": "kafka.compression.type",
    "dr_cb": "reportPath",
    "dr_msg_cb": "reportPath",
    "metadata.fetch.timeout.ms": "kafka.max.block.ms",
    "partitioner_cb": "kafka.partitioner",
    "queue.enqueue.timeout.ms": "kafka.max.block.ms",
    "stats_cb": "kafka.statistics.interval.ms",
    "timeout.ms": "kafka.request.timeout.ms",
    "topic": "topic",
    "transaction.two.phase.commit.enable": "twoPhaseCommit with deliveryGuarantee=exactly-once",
    "transactional.id": "transactionalIdPrefix with deliveryGuarantee=exactly-once",
}
"""Names of other clients and of Java's before 1.0, and the option that does that here."""

SERIALIZERS = frozenset({"key.serializer", "value.serializer"})

UNSAFE_PREFIXES = ("transactional.",)
"""Ignoring these would send data without the guarantee asked for."""

UNSAFE_KEYS = frozenset(
    {
        "config.providers",
        "interceptor.classes",
        "interceptors",
        "plugin.library.paths",
        "transaction.two.phase.commit.enable",
    }
)
"""Ignoring these would write other data than was asked for."""

SPARK_OPTIONS = frozenset(
    {
        "asyncprogresstrackingcheckpointintervalms",
        "asyncprogresstrackingenabled",
        "checkpointlocation",
        "outputmode",
        "path",
        "queryname",
    }
)
"""Options that Spark itself uses, in lower case; never taken for a typo."""

SOURCE_TOPICS = frozenset({"assign", "subscribe", "subscribepattern"})
"""Options of Spark's Kafka source that say which topics are read, in lower case."""

SOURCE_OPTIONS = SOURCE_TOPICS | {
    "endingoffsets",
    "endingoffsetsbytimestamp",
    "endingtimestamp",
    "failondataloss",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
    "groupidprefix",
    "kafkaconsumer.polltimeoutms",
    "maxoffsetspertrigger",
    "maxrecordsperpartition",
    "maxtriggerdelay",
    "minoffsetspertrigger",
    "minpartitions",
    "startingoffsets",
    "startingoffsetsbytimestamp",
    "startingoffsetsbytimestampstrategy",
    "startingtimestamp",
}
"""Options of Spark's Kafka source, in lower case: without effect, as in its own sink."""
