"""Configuration of the demo's consumer."""

import pytest

from spark_kafka_sink.cli.demo.librdkafka_config import librdkafka_config
from spark_kafka_sink.cli.demo.run import DemoOptions, check_demo_options
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.sink_config import ProducerConfig

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
URL = "sasl.oauthbearer.token.endpoint.url"
USER = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "env:PASSWORD"}


def config(protocol: str, **options: str) -> dict[str, str]:
    """Create options by name; two underscores stand for a dot."""
    kafka_options = {f"kafka.{name.replace('__', '.')}": value for name, value in options.items()}
    servers = {"kafka.bootstrap.servers": "b:1", "kafka.security.protocol": protocol}
    return librdkafka_config(ProducerConfig.parse(kafka_options | servers).security)


def test_plaintext_needs_no_other_options() -> None:
    assert config("PLAINTEXT") == {"security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"ssl.ca.location": "probe"}),
        ({"ssl__ca__pem": "PEM"}, {"ssl.ca.pem": "PEM"}),
        (
            {
                "ssl__truststore__location": "/ca",
                "ssl__truststore__type": "PEM",
                "ssl__keystore__location": "/me",
                "ssl__keystore__type": "PEM",
                "ssl__key__password": "p",
            },
            {
                "ssl.ca.location": "/ca",
                "ssl.certificate.location": "/me",
                "ssl.key.location": "/me",
                "ssl.key.password": "p",
            },
        ),
        (
            {"ssl__keystore__certificate__chain": "C", "ssl__keystore__key": "K"},
            {"ssl.ca.location": "probe", "ssl.certificate.pem": "C", "ssl.key.pem": "K"},
        ),
        (
            {
                "ssl__keystore__location": "/me",
                "ssl__keystore__type": "PKCS12",
                "ssl__keystore__password": "p",
            },
            {
                "ssl.ca.location": "probe",
                "ssl.keystore.location": "/me",
                "ssl.keystore.password": "p",
            },
        ),
    ],
)
def test_tls_options_are_converted(options: dict[str, str], expected: dict[str, str]) -> None:
    common = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "https"}
    assert config("SSL", **options) == common | expected


def test_host_name_check_can_be_disabled() -> None:
    properties = config("SSL", ssl__endpoint__identification__algorithm="")
    assert properties["ssl.endpoint.identification.algorithm"] == "none"


def test_user_and_password_are_separate_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "p")
    options = {name.replace(".", "__"): value for name, value in USER.items()}
    assert config("SASL_PLAINTEXT", **options) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "p",
    }


def test_issuer_uses_the_method_oidc() -> None:
    properties = config(
        "SASL_PLAINTEXT",
        sasl__mechanism="OAUTHBEARER",
        sasl__oauthbearer__token__endpoint__url="https://issuer/token",
        sasl__oauthbearer__client__id="me",
        sasl__oauthbearer__client__secret="s",
        sasl__oauthbearer__extensions="a=b,c=d",
    )
    assert properties == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.extensions": "a=b,c=d",
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ssl__truststore__location": "/ca"}, "a truststore of type JKS"),
        (
            {"ssl__keystore__location": "/me", "ssl__keystore__password": "p"},
            "a keystore of type JKS",
        ),
        ({"sasl__mechanism": "AWS_MSK_IAM"}, "this AWS_MSK_IAM login"),
        (
            {
                "sasl__mechanism": "SCRAM-SHA-256",
                "sasl__jaas__config": f'{SCRAM} username="a" password="b" tokenauth=true;',
            },
            "this SCRAM-SHA-256 login",
        ),
    ],
)
def test_options_unsupported_by_librdkafka(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        config("SASL_SSL" if "sasl__mechanism" in options else "SSL", **options)


def test_options_are_validated_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="lingerms"):
        check_demo_options(DemoOptions(kafka={"kafka.lingerms": "1"}))
    secured = {"kafka.security.protocol": "SSL"}
    with pytest.raises(ConfigError, match="--bootstrap-servers"):
        check_demo_options(DemoOptions(kafka=secured))
    assert check_demo_options(DemoOptions(kafka=secured, bootstrap_servers="b:1")).tls is not None
    assert "secret" not in repr(DemoOptions(kafka={"kafka.sasl.password": "secret"}))
