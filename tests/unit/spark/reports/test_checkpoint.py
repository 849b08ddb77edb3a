"""Reading the query id from a checkpoint."""

from pathlib import Path

import pytest

from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.spark.reports.report_folder import StreamIdentity, latest, query_id
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin


def test_query_id_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "metadata").write_text('{"id":"17"}\n')
    assert query_id(str(folder)) == query_id(folder.as_uri()) == "17"


@pytest.mark.parametrize("metadata", ["", "[]", "{}", "7", "\udcff"])
def test_invalid_metadata_file(metadata: str, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(metadata, errors="surrogateescape")
    assert query_id(str(tmp_path)) == ""


@pytest.mark.parametrize("place", ["", "/nowhere", "hdfs://a/b", "s3a://b/c", "file://[/x"])
def test_checkpoint_on_another_file_system(place: str) -> None:
    assert query_id(place) == ""


def test_failed_micro_batch_without_finished_task_has_its_query_id(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"17"}')
    origin = WriteOrigin.of_stream(StreamIdentity("", str(tmp_path)))
    failed = origin.completed(DeliveryReport(), 0)
    assert latest([failed], query_id="17") == failed
    assert latest([failed], query_id="18") is None
