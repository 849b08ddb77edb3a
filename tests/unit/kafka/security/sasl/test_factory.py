"""SASL mechanisms: optional libraries are imported on demand; PLAIN sends one message."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.optional_dependencies import install_command
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    JaasLogin,
    KerberosLogin,
    Mechanism,
    MskIamLogin,
    PasswordLogin,
    SaslConfig,
)
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange
from spark_kafka_sink.kafka.security.sasl.factory import exchange_for
from tests.support.logins import password_login
from tests.unit.kafka.security.tokens.logins import client_login

LOGINS: list[tuple[Mechanism, Any, str, str]] = [
    (Mechanism.OAUTHBEARER, client_login("https://issuer.test/token"), "requests", "oauth"),
    (Mechanism.AWS_MSK_IAM, MskIamLogin(region="eu-west-1"), "aws_msk_iam_sasl_signer", "msk-iam"),
    (Mechanism.GSSAPI, KerberosLogin(service_name="kafka"), "gssapi", "gssapi"),
]
PASSWORD_MECHANISMS = [name for name in Mechanism if name not in {login[0] for login in LOGINS}]


@pytest.mark.parametrize(("mechanism", "login", "module", "extra"), LOGINS)
def test_missing_library_names_the_extra(
    mechanism: Mechanism, login: Any, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=re.escape(install_command(extra))):
        exchange_for(SaslConfig(mechanism=mechanism, login=login), "broker.test")


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_every_other_mechanism_sends_the_user_name(mechanism: Mechanism) -> None:
    config = SaslConfig(mechanism=mechanism, login=password_login("alice", "secret"))
    assert b"alice" in exchange_for(config, "broker.test").initial_response()


def test_unresolved_jaas_config_is_read_at_login(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = JaasLogin(jaas=Secret("env:THE_LOGIN", "kafka.sasl.jaas.config"), settings=())
    config = SaslConfig(mechanism=Mechanism.PLAIN, login=login)
    with pytest.raises(ConfigError, match="THE_LOGIN"):
        exchange_for(config, "broker.test")
    for password in ("old", "new"):
        monkeypatch.setenv("THE_LOGIN", f'{module} required username="a" password="{password}";')
        assert exchange_for(config, "broker.test").initial_response() == f"\0a\0{password}".encode()


def test_library_that_cannot_be_loaded_names_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module exists, but its import fails, as for compiled modules without a system library."""
    monkeypatch.setitem(sys.modules, "requests.adapters", None)
    for name in ("client_credentials", "token_endpoint", "issuer_https"):
        module = f"spark_kafka_sink.kafka.security.tokens.{name}"
        monkeypatch.delitem(sys.modules, module, raising=False)
    config = SaslConfig(mechanism=Mechanism.OAUTHBEARER, login=LOGINS[0][1])
    with pytest.raises(ConfigError, match="OAUTHBEARER"):
        exchange_for(config, "broker.test")


def plain(login: PasswordLogin) -> SaslExchange:
    return exchange_for(SaslConfig(mechanism=Mechanism.PLAIN, login=login), "broker.test")


@pytest.mark.parametrize("noise", [b"", b"x" * 1_000, b"\xff\x00"])
def test_extra_response_is_ignored(noise: bytes) -> None:
    exchange = plain(password_login("alice", "secret"))
    exchange.initial_response()
    assert exchange.next_response(noise) is None


@pytest.mark.parametrize(
    ("name", "password", "option"),
    [
        ("ali\0ce", "x", "kafka.sasl.username"),
        ("alice", "top\0secret", "kafka.sasl.password"),
        ("", "x", "kafka.sasl.username"),
        ("alice", "", "kafka.sasl.password"),
        ("alice", "top\udcffsecret", "kafka.sasl.password"),
        ("alice", "env:NOT_SET_ANYWHERE", "kafka.sasl.password"),
    ],
)
def test_invalid_value_names_the_option_and_not_the_value(
    name: str, password: str, option: str
) -> None:
    with pytest.raises(ConfigError, match=option) as caught:
        plain(password_login(name, password)).initial_response()
    assert "topsecret" not in str(caught.value).replace("\0", "").replace("\udcff", "")


def test_file_is_read_at_each_login(tmp_path: Path) -> None:
    path = tmp_path / "password"
    login = password_login("alice", f"file:{path}")
    path.write_text("old\n")
    assert plain(login).initial_response() == b"\0alice\0old"
    path.write_text("new\n")
    assert plain(login).initial_response() == b"\0alice\0new"
