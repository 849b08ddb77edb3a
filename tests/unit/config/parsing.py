"""Parsing of options in tests."""

from collections.abc import Callable, Mapping

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.option_tables import PRODUCER_OPTIONS
from spark_kafka_sink.config.sink_config import SinkConfig

DEVIATIONS = tuple(option for option in PRODUCER_OPTIONS if option.sink_default is not None)
"""Options whose default differs from Java's. With profile=java, they have Java's default."""
MINIMAL = {"kafka.bootstrap.servers": "broker:9092"}


def parse(**options: object) -> SinkConfig:
    """Parse options by name; two underscores stand for a dot."""
    named = {name.replace("__", "."): str(value) for name, value in options.items()}
    return SinkConfig.parse(MINIMAL | named)


def failure(options: Mapping[str, str]) -> str:
    """Return the error for options that are added to the minimal ones."""
    return config_error(SinkConfig.parse, {**MINIMAL, **options})


def config_error(call: Callable[..., object], *arguments: object, **options: object) -> str:
    """Return the text of the error that a call raises; it does not contain the word sentinel."""
    with pytest.raises(ConfigError) as caught:
        call(*arguments, **options)
    assert "sentinel" not in f"{caught.value!s} {caught.value!r}"
    return str(caught.value)
