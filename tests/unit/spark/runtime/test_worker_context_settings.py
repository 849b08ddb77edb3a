"""Settings of the Spark session that a task uses."""

import pyspark
import pytest

from spark_kafka_sink.spark.runtime import internals, worker_context


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


SESSION = "6782732c-8328-447d-8da0-fb9253a90b0b"
TAG = f"SparkConnect_OperationTag_User_a_b_Session_{SESSION}_Operation_ce37067f"


@pytest.mark.parametrize(
    ("tags", "cbo", "expected"),
    [
        (f"{TAG},spark-session-2", "false", SESSION),
        (f"mine,{TAG}", "false", SESSION),
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
