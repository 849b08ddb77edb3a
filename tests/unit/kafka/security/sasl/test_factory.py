"""Optional libraries of SASL mechanisms are imported on demand, and errors name them."""

import re
import sys
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
    SaslConfig,
)
from spark_kafka_sink.kafka.security.sasl.factory import exchange_for
from tests.unit.kafka.security.tokens.logins import client_login

LOGINS: list[tuple[Mechanism, Any, str, str]] = [
    (Mechanism.OAUTHBEARER, client_login("https://issuer.test/token"), "requests", "oauth"),
    (Mechanism.AWS_MSK_IAM, MskIamLogin(region="eu-west-1"), "aws_msk_iam_sasl_signer", "msk-iam"),
    (Mechanism.GSSAPI, KerberosLogin(service_name="kafka"), "gssapi", "gssapi"),
]


@pytest.mark.parametrize(("mechanism", "login", "module", "extra"), LOGINS)
def test_missing_library_names_the_extra(
    mechanism: Mechanism, login: Any, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=re.escape(install_command(extra))):
        exchange_for(SaslConfig(mechanism=mechanism, login=login), "broker.test")


def test_unresolved_jaas_config_is_read_at_login(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = JaasLogin(jaas=Secret("env:THE_LOGIN", "kafka.sasl.jaas.config"), settings=())
    config = SaslConfig(mechanism=Mechanism.PLAIN, login=login)
    with pytest.raises(ConfigError, match="THE_LOGIN"):
        exchange_for(config, "broker.test")
    for password in ("old", "new"):
        monkeypatch.setenv("THE_LOGIN", f'{module} required username="a" password="{password}";')
        assert exchange_for(config, "broker.test").first() == f"\0a\0{password}".encode()


def test_library_that_cannot_be_loaded_names_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module exists, but its import fails, as for compiled modules without a system library."""
    monkeypatch.setitem(sys.modules, "requests.adapters", None)
    monkeypatch.delitem(
        sys.modules, "spark_kafka_sink.kafka.security.tokens.token_endpoint", raising=False
    )
    config = SaslConfig(mechanism=Mechanism.OAUTHBEARER, login=LOGINS[0][1])
    with pytest.raises(ConfigError, match="OAUTHBEARER"):
        exchange_for(config, "broker.test")
