"""Limits of topics."""

from spark_kafka_sink.broker.config.topic_config import TopicConfig


def test_limits_come_from_the_topic() -> None:
    overrides = {"segment.bytes": "2000000", "cleanup.policy": "compact", "flush.ms": "7"}
    config = TopicConfig(overrides=overrides).log
    assert (config.segment_bytes, config.deletes_records, config.flush_ms) == (2_000_000, False, 7)
    overrides["internal.segment.bytes"] = "123"
    assert TopicConfig(overrides=overrides).log.segment_bytes == 123
