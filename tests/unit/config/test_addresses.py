"""bootstrap.servers: valid and invalid addresses."""

import pytest

from spark_kafka_sink.config.addresses import parse_addresses, secured_protocols
from tests.unit.config.parsing import config_error


def failure(text: str) -> str:
    return config_error(parse_addresses, text, "kafka.bootstrap.servers")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", ("a:1",)),
        (" a:1 , b.example.com:65535,", ("a:1", "b.example.com:65535")),
        ("kafka_1:9092,kafka-2:9092", ("kafka_1:9092", "kafka-2:9092")),
        ("127.0.0.1:9092", ("127.0.0.1:9092",)),
        ("[::1]:9092", ("[::1]:9092",)),
        ("[fe80::1%eth0]:9092", ("[fe80::1%eth0]:9092",)),
        ("PLAINTEXT://a:1,plaintext://[::1]:2", ("a:1", "[::1]:2")),
        ("a:1,b:2,PLAINTEXT://a:1", ("a:1", "b:2")),
        ("SASL_SSL://a:1,EXTERNAL://b:2", ("a:1", "b:2")),
    ],
)
def test_addresses_are_parsed(text: str, expected: tuple[str, ...]) -> None:
    assert parse_addresses(text, "kafka.bootstrap.servers") == expected


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("broker", "no port"),
        ("[::1]", "no port"),
        ("broker:", "not host:port"),
        (":9092", "not host:port"),
        ("broker:x", "not host:port"),
        ("broker:0", "the port must be between 1 and 65535"),
        ("broker:65536", "the port must be between 1 and 65535"),
        ("::1:9092", "IPv6 addresses need brackets"),
        ("a:9092;b:9092", "commas must separate addresses"),
        ("[::g]:9092", "invalid IPv6 address"),
        ("a b:9092", "not host:port"),
    ],
)
def test_invalid_address_is_named_with_the_reason(entry: str, reason: str) -> None:
    assert f"{entry!r} ({reason})" in failure(f"good:1,{entry}")


def test_every_invalid_address_and_no_valid_one_is_named() -> None:
    text = failure("good:1,bad,worse:0")
    assert "'bad'" in text
    assert "'worse:0'" in text
    assert "good" not in text


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_address_is_required(text: str) -> None:
    assert "kafka.bootstrap.servers is empty, but at least one broker is required" in failure(text)


def test_password_is_not_repeated() -> None:
    text = failure("user:hunter2@broker:9092,x://u:hunter2@b:1")
    assert "hunter2" not in text
    assert "an address cannot contain a user or password" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1,b:2", set()),
        ("PLAINTEXT://a:1, EXTERNAL://b:2", set()),
        ("ssl://a:1, SASL_SSL://b:2", {"SSL", "SASL_SSL"}),
    ],
)
def test_protocols_in_addresses(text: str, expected: set[str]) -> None:
    assert secured_protocols(text) == expected
