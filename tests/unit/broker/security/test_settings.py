from __future__ import annotations

from typing import Any

import pytest

from spark_kafka_sink.broker.config import BrokerConfig
from spark_kafka_sink.common.errors import ConfigError


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sasl": {}}, "sasl is given, and there is no user, so nobody could log in"),
        ({"sasl_mechanisms": ["PLAIN"]}, "sasl_mechanisms has PLAIN, and there is no user"),
        ({"sasl": {}, "sasl_mechanisms": ["SCRAM-SHA-256"]}, "has SCRAM-SHA-256, and there is no"),
        ({"sasl": {"a": None}}, "sasl has a user or a password that is no text"),
        ({"sasl": {1: "b"}}, "sasl has a user or a password that is no text"),
        ({"sasl": "alice:sentinel"}, "sasl is a str and no dict"),
        ({"sasl": {"a": ""}}, "without a name or without a password"),
        ({"sasl": {"": "sentinel"}}, "without a name or without a password"),
        ({"tls": "yes"}, "tls is a str. It is True, False, or TlsFiles"),
    ],
)
def test_what_would_leave_the_broker_open_or_shut_is_a_sentence(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(**options)
    assert says in str(caught.value)
    assert "sentinel" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "protocol"),
    [
        ({}, "PLAINTEXT"),
        ({"sasl": {"alice": "x"}}, "SASL_PLAINTEXT"),
        ({"sasl_mechanisms": ["OAUTHBEARER"]}, "SASL_PLAINTEXT"),
        ({"sasl": {}, "sasl_mechanisms": ["OAUTHBEARER"]}, "SASL_PLAINTEXT"),
        ({"tls": True, "sasl": {"alice": "x"}}, "SASL_SSL"),
    ],
)
def test_how_it_is_secured(options: dict[str, Any], protocol: str) -> None:
    assert BrokerConfig(**options).security.protocol == protocol
