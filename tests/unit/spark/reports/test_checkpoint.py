"""The query's id out of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.spark.abort_files import WriteOrigin
from spark_kafka_sink.spark.report_folder import StreamIdentity, latest, query_id

if TYPE_CHECKING:
    from pathlib import Path


def test_the_id_that_spark_keeps(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "metadata").write_text('{"id":"17"}\n')
    assert query_id(str(folder)) == query_id(folder.as_uri()) == "17"


@pytest.mark.parametrize("metadata", ["", "[]", "{}", "7", "\udcff"])
def test_a_file_that_is_no_metadata(metadata: str, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(metadata, errors="surrogateescape")
    assert query_id(str(tmp_path)) == ""


@pytest.mark.parametrize("place", ["", "/nowhere", "hdfs://a/b", "s3a://b/c", "file://[/x"])
def test_no_checkpoint_of_this_machine(place: str) -> None:
    assert query_id(place) == ""


def test_a_failed_micro_batch_without_a_finished_task_is_that_of_its_query(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"17"}')
    origin = WriteOrigin.of_stream(StreamIdentity("", str(tmp_path)))
    failed = origin.completed(DeliveryReport(), 0)
    assert latest([failed], query_id="17") == failed
    assert latest([failed], query_id="18") is None
