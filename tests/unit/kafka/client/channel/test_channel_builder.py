"""An error of a library during the creation of a context ends only the connection."""

import ssl

import pytest

from spark_kafka_sink.common.errors import TlsError
from spark_kafka_sink.config.security.security_config import (
    SecurityConfig,
    SecurityProtocol,
    TlsConfig,
)
from spark_kafka_sink.kafka.client.channel.channel_builder import ChannelBuilder
from spark_kafka_sink.kafka.security.tls.context_cache import ContextCache


def test_unknown_error_is_named_and_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(config: TlsConfig) -> ssl.SSLContext:
        raise LookupError("hunter2")

    monkeypatch.setattr(
        "spark_kafka_sink.kafka.security.tls.context_cache.broker_contexts", ContextCache(fail)
    )
    with pytest.raises(TlsError, match=r"kafka\.ssl\.\* options: LookupError") as said:
        ChannelBuilder(SecurityConfig(protocol=SecurityProtocol.SSL, tls=TlsConfig()))
    assert "hunter2" not in f"{said.value} {said.value!r}"
    assert said.value.__cause__ is None
