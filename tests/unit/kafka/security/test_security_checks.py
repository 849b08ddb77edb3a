"""Security checks on the driver, before any task runs."""

import logging
import sys
from pathlib import Path

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.optional_dependencies import install_command
from spark_kafka_sink.config.security.security_config import SecurityConfig
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.security.security_checks import StreamSecurityCheck, check_security
from tests.unit.config.parsing import config_error
from tools.support.certificates import CertificateAuthority

KERBEROS = (
    'com.sun.security.auth.module.Krb5LoginModule required serviceName="kafka" useTicketCache=true;'
)
IAM = "software.amazon.msk.auth.iam.IAMLoginModule required;"
ISSUER = {
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://issuer.test/token",
    "kafka.sasl.oauthbearer.client.id": "me",
    "kafka.sasl.oauthbearer.client.secret": "secret",
}


def check(protocol: str, options: dict[str, str]) -> None:
    servers = {"kafka.bootstrap.servers": "b:1", "kafka.security.protocol": protocol}
    check_security(ProducerConfig.parse(servers | options).security)


def failure(protocol: str, options: dict[str, str]) -> str:
    return config_error(check, protocol, options)


def test_plaintext_needs_no_checks() -> None:
    check("PLAINTEXT", {})


def test_store_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    store = tmp_path / "ca.pem"
    store.write_text("no certificate")
    options = {"kafka.ssl.ca.location": str(store)}
    assert "option kafka.ssl.ca.location contains no certificate" in failure("SSL", options)
    store.write_text(CertificateAuthority().certificate_pem)
    check("SSL", options)


def test_store_that_exists_only_on_executors_is_skipped(tmp_path: Path) -> None:
    check("SSL", {"kafka.ssl.ca.location": str(tmp_path / "missing.pem")})


def test_issuers_authorities_are_checked(tmp_path: Path) -> None:
    store = tmp_path / "issuer.pem"
    store.write_text("no certificate")
    options = ISSUER | {"kafka.https.ca.location": str(store)}
    assert "option kafka.https.ca.location contains no" in failure("SASL_SSL", options)
    check("SASL_SSL", ISSUER)


@pytest.mark.parametrize("in_a_file", [False, True])
@pytest.mark.parametrize(
    ("jaas", "mechanism", "module", "extra"),
    [
        (KERBEROS, "GSSAPI", "gssapi", "gssapi"),
        (IAM, "AWS_MSK_IAM", "aws_msk_iam_sasl_signer", "msk-iam"),
    ],
)
def test_missing_library_is_reported(
    in_a_file: bool,
    jaas: str,
    mechanism: str,
    module: str,
    extra: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A login in a file is checked if the driver has the file, and skipped otherwise."""
    monkeypatch.setitem(sys.modules, module, None)
    file = tmp_path / "jaas.conf"
    place = f"file:{file}" if in_a_file else jaas
    options = {"kafka.sasl.jaas.config": place, "kafka.sasl.mechanism": mechanism}
    if in_a_file:
        check("SASL_PLAINTEXT", options)
    file.write_text(jaas)
    message = failure("SASL_PLAINTEXT", options)
    assert "kafka.sasl.mechanism needs a library" in message
    assert install_command(extra) in message


def settings(store: Path) -> SecurityConfig:
    options = {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.ca.location": str(store),
    }
    return ProducerConfig.parse(options).security


def test_stream_tolerates_a_store_being_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "ca.pem"
    security, stream_check = settings(store), StreamSecurityCheck(settling=0.0)
    store.write_text(CertificateAuthority().certificate_pem)
    stream_check.check_files(security)
    store.write_text("")
    with caplog.at_level(logging.WARNING):
        stream_check.check_files(security)
        stream_check.check_files(security)
    assert "kafka.ssl.ca.location" in caplog.text
    with pytest.raises(ConfigError):
        StreamSecurityCheck(settling=0.0).check_files(security)


def test_first_check_of_a_stream_waits_for_a_store_being_replaced(tmp_path: Path) -> None:
    store = tmp_path / "ca.pem"
    store.touch()

    def check(security: SecurityConfig) -> None:
        try:
            check_security(security)
        finally:
            store.write_text(CertificateAuthority().certificate_pem)

    StreamSecurityCheck(check, settling=20.0).check_files(settings(store))


@pytest.mark.parametrize(
    ("name", "password", "expected"),
    [
        ("alice\n", "secret", "kafka.sasl.username ends with a line break"),
        ("alice", "secret\n", "kafka.sasl.password ends with a line break"),
        ("alice", "file:{}/empty", "kafka.sasl.password is empty"),
        ("alice", "file:{}/folder", "which cannot be read on"),
        ("alice", "env:", "must be followed by the name of a variable"),
    ],
)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_invalid_name_or_password(
    mechanism: str, name: str, password: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    options = {
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.username": name,
        "kafka.sasl.password": password.format(tmp_path),
    }
    assert expected in failure("SASL_PLAINTEXT", options)


@pytest.mark.parametrize("password", ["file:/nowhere/password", "env:NOT_SET_HERE"])
def test_password_that_exists_only_on_executors_is_skipped(password: str) -> None:
    options = {
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": password,
    }
    check("SASL_PLAINTEXT", options)
