"""Options that `kafkaprod broker` rejects before it listens."""

import pytest

from spark_kafka_sink.cli.broker import serve
from spark_kafka_sink.common.errors import ConfigError


def test_missing_password_does_not_mention_executors() -> None:
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE") as caught:
        serve({"sasl": {"alice": "env:NOT_SET_ANYWHERE"}})
    assert "The broker resolves env:NAME and file:PATH" in str(caught.value)
    assert "xecutor" not in str(caught.value)


def test_ca_file_requires_tls() -> None:
    with pytest.raises(ConfigError, match="--ca-file"):
        serve({"nodes": 1}, "ca.crt")
