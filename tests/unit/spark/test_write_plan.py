"""Planning of writes and micro-batches, without a Spark session."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from spark_kafka_sink.kafka.security import security_checks
from spark_kafka_sink.spark import displayed_secrets, write_plan
from spark_kafka_sink.spark.reports.report_folder import ReportFolder

SCHEMA = StructType([StructField("value", StringType())])
OPTIONS = {"kafka.bootstrap.servers": "h:9092", "topic": "t", "preflight": "off"}


@pytest.fixture
def stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the options of a stream with a checkpoint, in an application with a folder."""
    monkeypatch.setattr(write_plan, "reject_continuous", lambda: None)
    monkeypatch.setattr(ReportFolder, "here", lambda: ReportFolder.of(tmp_path / "files"))
    return {**OPTIONS, "checkpointLocation": str(tmp_path / "checkpoint")}


def test_tasks_get_the_encoder_and_no_settings_of_the_registry() -> None:
    job = write_plan.plan_batch(
        {**OPTIONS, "value.format": "json", "value.fields": "value"}, SCHEMA
    )
    assert job.task.config.formats is None
    assert job.task.roles.value_spec is not None


def test_second_stream_has_its_own_report_path(stream: dict[str, str], tmp_path: Path) -> None:
    path = str(tmp_path / "reports")
    paths = [
        write_plan.plan_stream({**stream, "reportPath": path, **other}, SCHEMA).task.config
        for other in ({}, {"checkpointLocation": str(tmp_path / "other")})
    ]
    assert paths[0].report_path == path
    assert str(paths[1].report_path).startswith(f"{path}/")


def test_secrets_in_the_options_of_a_stream_are_warned_about(
    stream: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    displayed_secrets._warn_of_secret.cache_clear()
    write_plan.plan_stream({**stream, "kafka.ssl.key.pem": "k"}, SCHEMA)
    assert "Option kafka.ssl.key.pem contains a secret" in caplog.text


def test_security_files_are_checked_when_a_micro_batch_is_planned(
    stream: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Mock()
    monkeypatch.setattr(security_checks, "stream_security_check", check)
    write_plan.plan_batch(OPTIONS, SCHEMA)
    assert not check.check_files.called
    write_plan.plan_stream(stream, SCHEMA)
    assert check.check_files.called
