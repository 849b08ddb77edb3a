"""Security settings in a broker's configuration."""

from typing import Any

import pytest

from spark_kafka_sink.broker.config.broker_config import BrokerConfig
from spark_kafka_sink.common.errors import ConfigError


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sasl": {}}, "sasl is set, but there are no users, so nobody can log in"),
        ({"sasl_mechanisms": ["PLAIN"]}, "sasl_mechanisms contains PLAIN, but there are no users"),
        (
            {"sasl": {}, "sasl_mechanisms": ["SCRAM-SHA-256"]},
            "contains SCRAM-SHA-256, but there are no",
        ),
        ({"sasl": {"a": None}}, "sasl has a user or a password that is not a string"),
        ({"sasl": {1: "b"}}, "sasl has a user or a password that is not a string"),
        ({"sasl": "alice:sentinel"}, "sasl is a str, not a dict"),
        ({"sasl": {"a": ""}}, "without a name or without a password"),
        ({"sasl": {"": "sentinel"}}, "without a name or without a password"),
        ({"tls": "yes"}, "tls is a str. Set True, False, or TlsFiles"),
    ],
)
def test_incomplete_settings_are_rejected(options: dict[str, Any], says: str) -> None:
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
def test_description_of_the_security_settings(options: dict[str, Any], protocol: str) -> None:
    assert BrokerConfig(**options).protocol == protocol
