"""A token in an option or a file."""

import socket
from pathlib import Path

import pytest

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import TokenLogin
from spark_kafka_sink.kafka.security.tokens.token import StaticTokenSource
from tests.support.clock import ManualClock
from tests.unit.kafka.security.tokens.logins import jwt

OPTION = "kafka.sasl.oauthbearer.token"


def source(text: str, seconds: float = 0.0) -> StaticTokenSource:
    return StaticTokenSource(TokenLogin(token=Secret(text, OPTION)), ManualClock(seconds))


def test_token_in_the_option() -> None:
    assert source("opaque").fetch().value == "opaque"


def test_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n\n")
    tokens = source(f"file:{path}")
    assert tokens.shared is None
    assert tokens.fetch().value == "first"
    path.write_text("second")
    assert tokens.fetch().value == "second"


def test_expired_token_is_reported_before_connecting() -> None:
    text = jwt(exp=1_000)
    assert source(text, seconds=1_059).fetch().value == text
    with pytest.raises(AuthenticationError, match="1970-01-01 00:16:40 UTC") as caught:
        source(text, seconds=1_061).fetch()
    assert OPTION in str(caught.value)
    assert text not in str(caught.value)


@pytest.mark.parametrize("text", ["not a token", "é"])
def test_invalid_token_is_reported_by_its_option_only(text: str) -> None:
    with pytest.raises(AuthenticationError, match=OPTION) as caught:
        source(text).fetch()
    assert text not in str(caught.value)


def test_missing_file_names_the_host(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=socket.gethostname()):
        source(f"file:{tmp_path}/none").fetch()
