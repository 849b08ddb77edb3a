"""The folder of shipped files that a task uses: the session's, if it has one."""

from pathlib import Path

import pytest
from pyspark import SparkFiles

from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.spark.runtime.worker_context import session_folder, with_shipped_files

pytestmark = pytest.mark.usefixtures("no_session")
OPTIONS = {
    "kafka.bootstrap.servers": "h:9092",
    "kafka.security.protocol": "SSL",
    "kafka.ssl.truststore.location": "trust.p12",
}
SESSION = "b53e6105-6eed-414c-bd3d-574e0edcb2c1"


def in_worker(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Set the shipped-files root as in a Python worker."""
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(root))


def location(session: str | None) -> str | None:
    security = with_shipped_files(ProducerConfig.parse(OPTIONS), session).security
    assert security.tls is not None
    assert security.tls.truststore is not None
    return security.tls.truststore.location


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """Create the common folder with a Spark Connect session's folder in it."""
    (tmp_path / SESSION).mkdir()
    (tmp_path / SESSION / "trust.p12").touch()
    return tmp_path


def test_batch_of_a_session(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Driver and task both use the session's folder."""
    in_worker(monkeypatch, shipped / SESSION)
    assert session_folder() == SESSION
    assert location(session_folder()) == str(shipped / SESSION / "trust.p12")


def test_stream_of_a_session(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task uses the common folder, in which the driver's file of that name differs."""
    (shipped / "trust.p12").touch()
    in_worker(monkeypatch, shipped)
    assert location(SESSION) == str(shipped / SESSION / "trust.p12")


def test_without_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trust.p12").touch()
    in_worker(monkeypatch, tmp_path)
    assert location("userFiles-of-the-driver") == str(tmp_path / "trust.p12")


def test_without_spark() -> None:
    assert session_folder() is None
    assert location(None) == "trust.p12"
