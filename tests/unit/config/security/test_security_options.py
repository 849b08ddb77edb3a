"""The security options against Java's ProducerConfig, printed to `java_producer_config.tsv`."""

import csv
from pathlib import Path

import pytest

from spark_kafka_sink.config.option_definition import Option
from spark_kafka_sink.config.security.security_config import PasswordLogin
from spark_kafka_sink.config.security.security_options import SECURITY_OPTIONS
from spark_kafka_sink.config.sink_config import SinkConfig

with (Path(__file__).parents[1] / "java_producer_config.tsv").open() as lines:
    JAVA = {row["name"]: row for row in csv.DictReader(lines, delimiter="\t")}
SHARED = [option for option in SECURITY_OPTIONS if option.is_java_option]
KINDS = {"CLASS": "STRING", "LIST": "STRING", "SHORT": "INT"}
"""Types of Java without an equivalent here, and the types used instead."""
SECRET_HERE = {"sasl.oauthbearer.client.credentials.client.id"}


@pytest.mark.parametrize("option", SHARED, ids=lambda option: option.name)
def test_type_and_range_match_java(option: Option) -> None:
    java = JAVA[option.name]
    kind = "PASSWORD" if option.name in SECRET_HERE else java["type"]
    assert KINDS.get(kind, kind) == option.kind.name
    if option.high is not None:
        assert java["allowed"] == f"[{option.low},...,{option.high}]"


@pytest.mark.parametrize("option", SHARED, ids=lambda option: option.name)
def test_default_matches_java(option: Option) -> None:
    java = JAVA[option.name]["default"].removeprefix("class ").strip("[]").replace(", ", ",")
    named: dict[object, str] = {None: "null", False: "false", True: "true"}
    assert java == named.get(option.java_default, str(option.java_default))


def test_protocols_match_java() -> None:
    (protocol,) = (option for option in SHARED if option.name == "security.protocol")
    java = JAVA["security.protocol"]["allowed"].partition("[")[2].strip("]").split(", ")
    assert set(protocol.choices) == set(java)
    assert not protocol.is_java_option or protocol.java_default in protocol.choices


def test_options_of_other_clients_do_not_exist_in_java() -> None:
    assert (
        not {option.name for option in SECURITY_OPTIONS if not option.is_java_option} & JAVA.keys()
    )


def test_names_are_unique() -> None:
    assert len({option.name for option in SECURITY_OPTIONS}) == len(SECURITY_OPTIONS)


def test_librdkafka_password_keeps_spaces_and_java_trims() -> None:
    options = {
        "kafka.bootstrap.servers": "h:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "  between spaces ",
        "kafka.ssl.truststore.location": "t.jks",
        "kafka.ssl.truststore.password": " trimmed ",
    }
    security = SinkConfig.parse(options).producer.security
    assert security.sasl is not None
    assert isinstance(security.sasl.login, PasswordLogin)
    assert security.sasl.login.password.reveal() == "  between spaces "
    assert security.tls is not None
    assert security.tls.truststore is not None
    assert security.tls.truststore.password is not None
    assert security.tls.truststore.password.reveal() == "trimmed"
