"""Metadata: topics that are created or hidden."""

import pytest

from spark_kafka_sink.kafka.protocol.acl import AclOperation
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.unit.broker.handlers.in_process import InProcessClient


@pytest.mark.parametrize(("enabled", "allowed"), [(True, True), (True, False), (False, True)])
def test_topic_is_created_only_if_broker_and_client_allow_it(enabled: bool, allowed: bool) -> None:
    client = InProcessClient(auto_create_topics=enabled, default_partitions=3)
    requested = {"topics": [{"name": "new"}], "allow_auto_topic_creation": allowed}
    topic = client.call(ApiKey.METADATA, 9, **requested).topics[0]
    is_created = enabled and allowed
    assert len(topic.partitions) == (3 if is_created else 0)
    assert (client.cluster.topics.named("new") is not None) == is_created
    assert (topic.error_code is ErrorCode.none) == is_created


def test_denied_topic_is_an_error_or_hidden() -> None:
    client = InProcessClient(topics={"t": 1, "denied": 1})
    client.deny(AclOperation.DESCRIBE, "denied")
    named = client.call(ApiKey.METADATA, 9, topics=[{"name": "denied"}]).topics
    assert [topic.error_code for topic in named] == [ErrorCode.topic_authorization_failed]
    assert [topic.name for topic in client.call(ApiKey.METADATA, 9, topics=None).topics] == ["t"]
