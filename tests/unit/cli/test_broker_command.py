"""Options that `kafkaprod broker` rejects before it listens."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_kafka_sink.broker.config.broker_config import BrokerConfig
from spark_kafka_sink.cli.broker_command import BrokerArguments, serve
from spark_kafka_sink.cli.main import app
from spark_kafka_sink.common.errors import ConfigError


def test_missing_password_does_not_mention_executors() -> None:
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE") as caught:
        serve({"sasl": {"alice": "env:NOT_SET_ANYWHERE"}})
    assert "The broker resolves env:NAME and file:PATH" in str(caught.value)
    assert "xecutor" not in str(caught.value)


def test_ca_file_requires_tls() -> None:
    with pytest.raises(ConfigError, match="--ca-file"):
        serve({"nodes": 1}, "ca.crt")


def test_ca_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--ca-file .*ca.crt cannot be written: No such file"):
        serve({"tls": True, "port": 0}, str(tmp_path / "missing" / "ca.crt"))


@pytest.mark.parametrize("text", ["[1]", "{}", "null", '{"keys": []}', "no json"])
def test_file_without_keys(tmp_path: Path, text: str) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"--oauthbearer-jwks .* cannot be read"):
        BrokerArguments(oauthbearer_jwks=str(file)).options()


def test_defaults_match_python_except_for_the_port() -> None:
    assert replace(BrokerConfig(**BrokerArguments().options()), port=0) == BrokerConfig()


def test_option_names_are_complete_in_80_columns() -> None:
    text = CliRunner().invoke(app, ["broker", "--help"], terminal_width=80).output
    assert "--transactional-id-expiration-ms" in text
    assert "--auto-create-topics / --no-auto-create-topics" in text
    assert max(map(len, text.splitlines())) <= 80
