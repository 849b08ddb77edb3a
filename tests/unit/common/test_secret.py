"""References are followed, or it is said why they lead nowhere, without what stands there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret

if TYPE_CHECKING:
    from pathlib import Path


def test_a_path_that_is_none_is_a_mistake_in_the_option() -> None:
    secret = Secret("file:/a\0b", "kafka.sasl.password")
    assert not secret.is_here
    with pytest.raises(
        ConfigError, match=r"kafka\.sasl\.password names the file .*no path"
    ) as said:
        secret.reveal()
    assert "\0" not in str(said.value)


def test_a_file_that_is_not_utf_8_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"hunter2\xff")
    with pytest.raises(ConfigError, match="it is not UTF-8") as said:
        Secret(f"file:{file}", "kafka.sasl.password").reveal()
    assert (said.value.__cause__, said.value.__context__) == (None, None)
