"""Secrets that end with a line break, or look like references."""

import socket
from pathlib import Path

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.security.credentials import reveal_text, utf8_text
from spark_kafka_sink.kafka.security.sasl.factory import exchange_for

OPTION = "kafka.sasl.password"


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\n\r\n"])
def test_file_that_ends_with_several_line_breaks(tmp_path: Path, end: bytes) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"hunter2" + end)
    for read in (reveal_text, utf8_text):
        with pytest.raises(ConfigError, match="more than one line break") as caught:
            read(Secret(f"file:{file}", OPTION))
        assert all(part in str(caught.value) for part in (OPTION, str(file), socket.gethostname()))
        assert "hunter2" not in str(caught.value)
    file.write_bytes(b"hunter2" + end[: len(end) // 2])
    assert reveal_text(Secret(f"file:{file}", OPTION)) == "hunter2"


def test_variable_that_ends_with_a_line_break(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a Kubernetes secret created with `echo secret | base64`."""
    monkeypatch.setenv("THE_PASSWORD", "hunter2\n")
    with pytest.raises(ConfigError, match="line break") as caught:
        reveal_text(Secret("env:THE_PASSWORD", OPTION))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("by_jaas", [False, True])
def test_name_and_password_that_look_like_references(*, by_jaas: bool) -> None:
    name, password = "literal:env:alice", "literal:file:hunter2"
    options = {"kafka.sasl.username": name, "kafka.sasl.password": password}
    if by_jaas:
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        login = f'{module} required username="{name}" password="{password}";'
        options = {"kafka.sasl.jaas.config": login}
    common = {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
    }
    sasl = ProducerConfig.parse(common | options).security.sasl
    assert sasl is not None
    assert exchange_for(sasl, "broker").initial_response() == b"\0env:alice\0file:hunter2"
