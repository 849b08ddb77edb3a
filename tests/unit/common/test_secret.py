"""References to secrets are resolved, and errors never contain the value."""

from pathlib import Path

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret


def test_invalid_path_is_a_config_error() -> None:
    secret = Secret("file:/a\0b", "kafka.sasl.password")
    assert not secret.exists_on_host
    with pytest.raises(
        ConfigError, match=r"kafka\.sasl\.password names the file .*invalid path"
    ) as said:
        secret.reveal()
    assert "\0" not in str(said.value)


def test_file_that_is_not_utf_8_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"hunter2\xff")
    with pytest.raises(ConfigError, match="Write text in UTF-8") as said:
        Secret(f"file:{file}", "kafka.sasl.password").reveal()
    assert (said.value.__cause__, said.value.__context__) == (None, None)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"hunter2", "hunter2"),
        (b"hunter2\n", "hunter2"),
        (b"hunter2\r\n", "hunter2"),
        (b"\xef\xbb\xbfhunter2\r\n", "hunter2"),
        (b"\xef\xbb\xbf", ""),
        (b"hunter2\xef\xbb\xbf", "hunter2\ufeff"),
        (b" hunter2 \n\n", " hunter2 \n"),
        (b"literal:x\n", "literal:x"),
    ],
)
def test_relevant_content_of_a_file(tmp_path: Path, content: bytes, value: str) -> None:
    """Windows editors write a byte order mark, and most editors a final line break."""
    file = tmp_path / "password"
    file.write_bytes(content)
    assert Secret(f"file:{file}", "kafka.sasl.password").reveal() == value


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("literal:env:x", "env:x"),
        ("literal:file:/etc/passwd", "file:/etc/passwd"),
        ("literal:literal:x", "literal:x"),
        ("literal:", ""),
        ("LITERAL:x", "LITERAL:x"),
    ],
)
def test_value_may_look_like_a_reference(source: str, value: str) -> None:
    secret = Secret(source, "kafka.sasl.password")
    assert secret.reveal() == value
    assert secret.exists_on_host
    assert not secret.is_reference
    assert secret.file is None


def test_missing_variable_error_explains_driver_and_executors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark applies spark.executorEnv to executors that it starts; local mode has none."""
    monkeypatch.delenv("NOT_SET", raising=False)
    secret = Secret("env:NOT_SET", "kafka.sasl.password")
    assert not secret.exists_on_host
    with pytest.raises(ConfigError, match="NOT_SET") as said:
        secret.reveal()
    assert "On a cluster, spark.executorEnv sets it" in str(said.value)
    assert "in local mode, for everything), it must be set before Spark's JVM" in str(said.value)


@pytest.mark.parametrize(
    ("source", "what"), [("env:", "the name of a variable"), ("file:", "a path")]
)
def test_empty_reference_is_an_error_everywhere(source: str, what: str) -> None:
    secret = Secret(source, "kafka.sasl.password")
    assert secret.exists_on_host
    with pytest.raises(ConfigError, match=f"{source}, .*{what}"):
        secret.reveal()
