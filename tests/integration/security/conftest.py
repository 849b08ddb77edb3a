"""The secured Kafka, in a process that finds its Kerberos realm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.security.secured import SecuredKafka


@pytest.fixture
def kafka(secured_kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> SecuredKafka:
    """With every listener."""
    monkeypatch.setenv("KRB5_CONFIG", str(secured_kafka.kdc.config))
    return secured_kafka


@pytest.fixture
def topic(kafka: SecuredKafka, unique_topic: str) -> str:
    """Three empty partitions."""
    return kafka.admin.create_topic(unique_topic, 3)
