"""Files named in security options, found where Spark has shipped them.

Spark puts files of `--files` and `addFile` into one folder of the driver and of each executor, and
passes the folder to Python workers. `addArtifact(file=True)` of Spark Connect puts them into a
subfolder of the session: Spark passes that one to the driver's workers and to tasks of batches, but
not to tasks of streams.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkFiles

from spark_kafka_sink.config.enums import Preflight
from spark_kafka_sink.security.shipped_files import located
from spark_kafka_sink.spark.session_conf import only_errors_are_logged

if TYPE_CHECKING:
    from spark_kafka_sink.config.model import ProducerConfig, SinkConfig
    from spark_kafka_sink.spark.contract import Contract


def session_folder() -> str | None:
    """Return the name of the driver's folder, which is that of the session with Spark Connect."""
    root = _root()
    return None if root is None else root.name


def with_shipped_files(config: ProducerConfig, session: str | None = None) -> ProducerConfig:
    """Return the config with the paths that shipped files have in this process.

    Args:
        config: as the user gave it.
        session: in a task, `session_folder` of the driver.
    """
    root = _root()
    if root is None:
        return config
    folders = (root,) if session is None else (root / session, root)
    return replace(config, security=located(config.security, folders))


def check_security(config: ProducerConfig, *, of_stream: bool = False) -> None:
    """Detect problems on the driver that would fail every task: see `security.preflight`.

    Args:
        config: as the user gave it.
        of_stream: a micro-batch is planned, see `StreamPreflight`.

    Raises:
        ConfigError: a key store cannot be opened, or a library is missing.
    """
    from spark_kafka_sink.security import preflight  # not in tasks, nor for a commit

    check = preflight.STREAMS.check if of_stream else preflight.check_security
    check(with_shipped_files(config).security)


def check_brokers(config: SinkConfig, contract: Contract, *, of_stream: bool = False) -> None:
    """Check the brokers, and create a missing topic if requested (see `diagnostics.preflight`).

    Args:
        config: of the sink, as the user gave it.
        contract: the columns of the rows.
        of_stream: a micro-batch is planned.

    Raises:
        KafkaProdError: with preflight=fail every task would fail; or the topic cannot be created.
    """
    if config.preflight is Preflight.OFF and not config.topic_creation.create:
        return
    from spark_kafka_sink.diagnostics.examination import Intent  # not without a check
    from spark_kafka_sink.diagnostics.preflight import PREFLIGHT

    located = replace(config, producer=with_shipped_files(config.producer))
    intent = Intent(config=located, has_key=contract.key is not None)
    PREFLIGHT.check(intent, of_stream=of_stream, only_errors=only_errors_are_logged())


def _root() -> Path | None:
    """Return Spark's folder for files; None without a Python worker or a session."""
    try:
        return Path(SparkFiles.getRootDirectory())
    except (AssertionError, AttributeError):
        return None
