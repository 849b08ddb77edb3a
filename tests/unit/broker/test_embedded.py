"""Errors of `EmbeddedBroker` for missing topics."""

from __future__ import annotations

import pytest

from spark_kafka_sink import EmbeddedBroker, UnknownTopicError


def test_missing_topic_error_lists_existing_topics() -> None:
    with EmbeddedBroker(topics={"events": 1}) as kafka, pytest.raises(UnknownTopicError) as unknown:
        kafka.records("evnts")
    assert unknown.value.hint == "Topics: events"
