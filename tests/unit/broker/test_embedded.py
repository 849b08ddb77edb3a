"""What `EmbeddedBroker` says of topics that it does not have."""

from __future__ import annotations

import pytest

from spark_kafka_sink import EmbeddedBroker, UnknownTopicError


def test_a_topic_that_is_not_there_is_answered_with_those_that_are() -> None:
    with EmbeddedBroker(topics={"events": 1}) as kafka, pytest.raises(UnknownTopicError) as unknown:
        kafka.records("evnts")
    assert unknown.value.hint == "Topics: events"
