"""PLAIN: one message, without separators in its values."""

from pathlib import Path

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.security_config import Mechanism, PasswordLogin, SaslConfig
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange
from spark_kafka_sink.kafka.security.sasl.factory import exchange_for
from tests.unit.kafka.security.sasl.logins import password_login


def plain(login: PasswordLogin) -> SaslExchange:
    return exchange_for(SaslConfig(mechanism=Mechanism.PLAIN, login=login), "broker.test")


@pytest.mark.parametrize("noise", [b"", b"x" * 1_000, b"\xff\x00"])
def test_extra_response_is_ignored(noise: bytes) -> None:
    exchange = plain(password_login("alice", "secret"))
    exchange.first()
    assert exchange.answer(noise) is None


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
        plain(password_login(name, password)).first()
    assert "topsecret" not in str(caught.value).replace("\0", "").replace("\udcff", "")


def test_file_is_read_at_each_login(tmp_path: Path) -> None:
    path = tmp_path / "password"
    login = password_login("alice", f"file:{path}")
    path.write_text("old\n")
    assert plain(login).first() == b"\0alice\0old"
    path.write_text("new\n")
    assert plain(login).first() == b"\0alice\0new"
