"""Secrets in wrong options: no error shows them."""

import traceback
import warnings
from collections.abc import Mapping

import pytest

from spark_kafka_sink.common.errors import ConfigError, KafkaProdError
from spark_kafka_sink.config.aliases import ALIASES
from spark_kafka_sink.config.option_definition import PREFIX
from spark_kafka_sink.config.option_tables import PRODUCER_OPTIONS, SINK_OPTIONS
from spark_kafka_sink.config.security.security_names import SECURITY_ALIASES
from spark_kafka_sink.config.security.security_options import SECURITY_OPTIONS
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.kafka.security.security_checks import check_security

CANARY = "canary99"
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    f'username="alice" password="{CANARY}";'
)
KEY = f"-----BEGIN PRIVATE KEY-----\nMIGH{CANARY}\n-----END PRIVATE KEY-----\n"
CERTIFICATE = KEY.replace("PRIVATE KEY", "CERTIFICATE")
SECRETS = {"jaas": JAAS, "key": KEY, "one-line": KEY.replace("\n", "\\n"), "cert": CERTIFICATE}
BASES: Mapping[str, Mapping[str, str]] = {
    "plaintext": {},
    "tls": {"kafka.security.protocol": "SSL"},
    "login": {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "alice-secret",
    },
    "issuer": {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://issuer.test/token",
        "kafka.sasl.oauthbearer.client.credentials.client.id": "alice",
        "kafka.sasl.oauthbearer.client.credentials.client.secret": "alice-secret",
    },
}
JAAS_PLACES = {"kafka.sasl.jaas.config"}
PEM_PLACES = JAAS_PLACES | {
    "kafka.ssl.truststore.certificates",
    "kafka.ssl.keystore.certificate.chain",
    "kafka.ssl.keystore.key",
    "kafka.ssl.ca.pem",
    "kafka.ssl.certificate.pem",
    "kafka.ssl.key.pem",
    "kafka.https.ca.pem",
}
OPTIONS = (
    *(f"{PREFIX}{option.name}" for option in (*PRODUCER_OPTIONS, *SECURITY_OPTIONS)),
    *(f"{PREFIX}{name}" for name in (*ALIASES, *SECURITY_ALIASES)),
    *(option.name for option in SINK_OPTIONS),
)


def error_of(options: Mapping[str, str]) -> KafkaProdError | None:
    """Return the error of parsing and preflight, if any."""
    try:
        config = SinkConfig.parse({"kafka.bootstrap.servers": "broker:9092"} | dict(options))
        assert CANARY not in repr(config).lower()
        check_security(config.producer.security)
    except KafkaProdError as error:
        return error
    return None


def all_of(error: BaseException) -> str:
    """Return all text that a traceback shows of the error."""
    return f"{error!r}\n{''.join(traceback.format_exception(error))}".lower()


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("option", OPTIONS)
def test_no_error_shows_a_secret_in_any_option(
    option: str, base: str, caplog: pytest.LogCaptureFixture
) -> None:
    for name, secret in SECRETS.items():
        forms = (secret, f"env:{secret}", f"file:{secret}", f"x {secret}")
        for text in (*forms, secret.lower()):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                error = error_of({**BASES[base], option: text})
            if option not in (JAAS_PLACES if name == "jaas" else PEM_PLACES):
                assert error is not None, (option, name)
                assert option in str(error)
            if error is not None:
                assert CANARY not in all_of(error), (option, name)
    assert CANARY not in caplog.text.lower()


@pytest.mark.parametrize(
    "options",
    [
        *(
            {name.format(secret): "x"}
            for name in ("{}", "kafka.{}", "kafka.sasl.{}", "sasl.{}", "topic{}")
            for secret in SECRETS.values()
        ),
        {"kafka.sasl.password=canary99": ""},
        {"sasl.password=canary99": ""},
        {"kafka.security.protocol": CANARY},
        {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": CANARY},
    ],
)
def test_no_error_shows_a_secret_in_a_name_or_a_short_value(options: dict[str, str]) -> None:
    error = error_of(options)
    assert isinstance(error, ConfigError)
    assert CANARY not in all_of(error)


@pytest.mark.parametrize(
    "option", ["kafka.ssl.keystore.location", "kafka.ssl.key.location", "kafka.ssl.keystore.key"]
)
def test_no_error_shows_a_password_used_as_path(option: str) -> None:
    value = CANARY if option.endswith("location") else f"file:{CANARY}"
    other = {"kafka.ssl.keystore.certificate.chain": CERTIFICATE}
    options = {"kafka.security.protocol": "SSL", option: value}
    if not option.endswith("keystore.location"):
        options |= other
    error = error_of(options)
    if error is not None:
        assert CANARY not in all_of(error).replace(CERTIFICATE.lower(), "")


def test_error_names_the_right_option_for_a_key() -> None:
    error = error_of({"kafka.security.protocol": "SSL", "kafka.ssl.key.location": KEY})
    assert str(error) == (
        f"option kafka.ssl.key.location contains a text of {len(KEY)} characters that looks like a "
        "private key. Set a private key with kafka.ssl.keystore.key; options that end with "
        "location take the path of a file."
    )
