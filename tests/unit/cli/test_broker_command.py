"""Options that `kafkaprod broker` rejects before it listens."""

from dataclasses import replace

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


def test_defaults_match_python_except_for_the_port() -> None:
    assert replace(BrokerConfig(**BrokerArguments().options()), port=0) == BrokerConfig()


def test_option_names_are_complete_in_80_columns() -> None:
    text = CliRunner().invoke(app, ["broker", "--help"], terminal_width=80).output
    assert "--transactional-id-expiration-ms" in text
    assert "--auto-create-topics / --no-auto-create-topics" in text
    assert max(map(len, text.splitlines())) <= 80
