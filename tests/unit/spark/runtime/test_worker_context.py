"""The folder of shipped files and the settings of the Spark session that a task uses."""

from pathlib import Path

import pyspark
import pytest
from pyspark import SparkFiles

from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.spark.runtime import internals, worker_context
from spark_kafka_sink.spark.runtime.worker_context import artifact_folder, with_shipped_files

pytestmark = pytest.mark.usefixtures("no_session")
OPTIONS = {
    "kafka.bootstrap.servers": "h:9092",
    "kafka.security.protocol": "SSL",
    "kafka.ssl.truststore.location": "trust.p12",
}
SESSION = "b53e6105-6eed-414c-bd3d-574e0edcb2c1"
SESSION_NAME = "6782732c-8328-447d-8da0-fb9253a90b0b"
TAG = f"SparkConnect_OperationTag_User_a_b_Session_{SESSION_NAME}_Operation_ce37067f"


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
    assert artifact_folder() == SESSION
    assert location(artifact_folder()) == str(shipped / SESSION / "trust.p12")


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
    assert artifact_folder() is None
    assert location(None) == "trust.p12"


@pytest.mark.parametrize(
    ("application", "query", "expected"),
    [
        ("etl", "", "kafkaprod-etl"),
        ("etl", "clicks", "kafkaprod-etl-clicks"),
        (None, "", "kafkaprod"),
        (None, "clicks", "kafkaprod-clicks"),
        ("nightly: load (2)/ä", "a b", "kafkaprod-nightly_load_2-a_b"),
        ("0b0b6bd2-64d3-4cf1-8b2b-0f3c64f6ef4f", "", "kafkaprod"),
        ("x" * 300, "", f"kafkaprod-{'x' * 100}"),
    ],
)
def test_client_id_contains_application_and_query(
    application: str | None, query: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internals, "local_property", {"spark.app.name": application}.get)
    assert worker_context.client_id(query) == expected


@pytest.mark.parametrize("release", ["3.5.9", "4.0.5"])
def test_releases_without_the_marker(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = dict.fromkeys(internals.QUERY_SETTINGS, "false")
    monkeypatch.setattr(internals, "local_property", settings.get)
    monkeypatch.setattr(pyspark, "__version__", release)
    assert worker_context.lacks_query()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({internals.QUERY_ID: "6b0c7a3e"}, False),
        ({"spark.job.tags": "SparkConnect_OperationTag_User__Session_1,spark-session-2"}, False),
        ({"spark.sql.requireAllClusterKeysForDistribution": None}, False),
        ({"spark.sql.cbo.enabled": None}, False),
        ({"spark.sql.cbo.enabled": "true"}, False),
        ({internals.QUERY_MARKER: None}, False),
    ],
)
def test_stream_task_without_query(
    changed: dict[str, str | None], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "spark.job.tags": "spark-session-2",
        "spark.sql.requireAllClusterKeysForDistribution": "false",
        "spark.sql.cbo.enabled": "false",
        internals.QUERY_MARKER: "200",
        **changed,
    }
    monkeypatch.setattr(internals, "local_property", settings.get)
    monkeypatch.setattr(pyspark, "__version__", "4.1.0")
    assert worker_context.lacks_query() is expected


@pytest.mark.parametrize(
    ("tags", "cbo", "expected"),
    [
        (f"{TAG},spark-session-2", "false", SESSION_NAME),
        (f"mine,{TAG}", "false", SESSION_NAME),
        (TAG, None, None),
        ("spark-session-2", "false", None),
        (None, "false", None),
    ],
)
def test_session_of_a_query_with_spark_connect(
    tags: str | None, cbo: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "spark.job.tags": tags,
        "spark.sql.requireAllClusterKeysForDistribution": "false",
        "spark.sql.cbo.enabled": cbo,
        internals.QUERY_MARKER: "200",
    }
    monkeypatch.setattr(internals, "local_property", settings.get)
    assert worker_context.connect_query_session() == expected
