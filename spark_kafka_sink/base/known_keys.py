"""Names that other parts of Kafka know: neither supported here nor a user's mistake.

From Kafka 4.3's ProducerConfig and ConsumerConfig.
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
        "transaction.timeout.ms",
        "transaction.two.phase.commit.enable",
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
"""Options of a reader: they come along where one set of options serves reading and writing."""

IGNORED_KEYS = IGNORED_PRODUCER_KEYS | IGNORED_CONSUMER_KEYS

SERIALIZERS = frozenset({"key.serializer", "value.serializer"})

UNSAFE_PREFIXES = ("sasl.", "ssl.", "transactional.")
"""Ignoring these would send data unprotected, or without the guarantee that was asked for."""

UNSAFE_KEYS = frozenset({"interceptor.classes", "config.providers"})
"""Ignoring these would write other data than was asked for."""

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

SPARK_OPTIONS = frozenset(
    {
        "path",
        "checkpointlocation",
        "queryname",
        "outputmode",
        "failondataloss",
        "subscribe",
        "subscribepattern",
        "assign",
        "startingoffsets",
        "endingoffsets",
        "startingtimestamp",
        "endingtimestamp",
        "maxoffsetspertrigger",
        "minoffsetspertrigger",
        "maxtriggerdelay",
        "minpartitions",
        "groupidprefix",
        "kafkaconsumer.polltimeoutms",
    }
)
"""Options that Spark or its own Kafka format uses, in lower case; never taken for a typo."""
