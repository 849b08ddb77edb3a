"""The secured Kafka, with KRB5_CONFIG set to its Kerberos realm."""

import pytest

from tests.support.security.secured_kafka import SecuredKafka


@pytest.fixture
def kafka(secured_kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> SecuredKafka:
    """Return the cluster with all listeners."""
    monkeypatch.setenv("KRB5_CONFIG", str(secured_kafka.kdc.config))
    return secured_kafka


@pytest.fixture
def topic(kafka: SecuredKafka, unique_topic: str) -> str:
    """Create an empty topic with three partitions."""
    return kafka.admin.create_topic(unique_topic, 3)
