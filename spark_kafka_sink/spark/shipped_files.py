"""The files of security options, by the names under which Spark ships them.

`--files` and `addFile` (Connect: `addArtifact(file=True)`) put them into one folder of the driver
and of each executor, which a Python worker is told.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkFiles

from spark_kafka_sink.security import preflight
from spark_kafka_sink.security.shipped_files import located

if TYPE_CHECKING:
    from spark_kafka_sink.config.model import ProducerConfig


def with_shipped_files(config: ProducerConfig) -> ProducerConfig:
    """The config with the paths that shipped files have in this process."""
    return replace(config, security=located(config.security, _folders()))


def check_security(config: ProducerConfig) -> None:
    """Find on the driver what would fail every task: see `security.preflight`.

    Raises:
        ConfigError: a key store does not open, or a library is missing.
    """
    preflight.check_security(with_shipped_files(config).security)


def _folders() -> tuple[Path, ...]:
    """Where Spark puts files; nowhere outside of a Python worker and of a driver with a session."""
    try:
        return (Path(SparkFiles.getRootDirectory()),)
    except (AssertionError, AttributeError):
        return ()
