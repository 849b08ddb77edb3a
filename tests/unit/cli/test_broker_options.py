"""The options of `kafkaprod broker`: defaults and help."""

from dataclasses import replace

from typer.testing import CliRunner

from spark_kafka_sink.broker.config import BrokerConfig
from spark_kafka_sink.cli.broker import BrokerArguments
from spark_kafka_sink.cli.main import app


def test_defaults_match_python_except_for_the_port() -> None:
    assert replace(BrokerConfig(**BrokerArguments().options()), port=0) == BrokerConfig()


def test_option_names_are_complete_in_80_columns() -> None:
    text = CliRunner().invoke(app, ["broker", "--help"], terminal_width=80).output
    assert "--transactional-id-expiration-ms" in text
    assert "--auto-create-topics / --no-auto-create-topics" in text
    assert max(map(len, text.splitlines())) <= 80
