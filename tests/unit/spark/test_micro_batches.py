"""The options of each write in `foreachBatch`."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from spark_kafka_sink import ConfigError, ReportError, micro_batch_writer
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.file_storage import write_report
from spark_kafka_sink.spark import micro_batches
from spark_kafka_sink.spark.reports import retention

SERVERS = {"kafka.bootstrap.servers": "h:9092", "topic": "t"}
FRAME: Any = object()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Return the options of all writes."""
    options: list[dict[str, str]] = []

    def write(_: Any, write_options: dict[str, str]) -> DeliveryReport:
        options.append(write_options)
        return DeliveryReport()

    monkeypatch.setattr(micro_batches, "write", write)
    return options


def options_of(written: list[dict[str, str]], **options: object) -> dict[str, str]:
    """Return the options of a write of micro-batch 3, without those of `SERVERS`."""
    micro_batch_writer({**SERVERS, **options})(FRAME, 3)
    (write_options,) = written
    assert SERVERS.items() <= write_options.items()
    return {name: write_options[name] for name in write_options.keys() - SERVERS.keys()}


def test_options_are_converted_to_text(written: list[dict[str, str]]) -> None:
    write_options = options_of(written, useTimestampColumn=True, partitions=3)
    assert write_options == {"usetimestampcolumn": "true", "partitions": "3"}


@pytest.mark.parametrize(
    ("path", "report_path"), [("reports", "reports/batch-3.json"), ("a/{batchId}.json", "a/3.json")]
)
def test_each_batch_has_a_report_as_in_a_stream(
    written: list[dict[str, str]], path: str, report_path: str
) -> None:
    assert options_of(written, reportPath=path) == {"reportpath": report_path}


@pytest.mark.parametrize("path", ["", " "])
def test_empty_report_path_means_none_as_in_a_stream(
    written: list[dict[str, str]], path: str
) -> None:
    assert options_of(written, reportPath=path) == {}


@pytest.mark.parametrize("template", ["", "{batchId}/report.json"])
def test_reports_of_the_last_micro_batches_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, template: str
) -> None:
    batches = iter(range(9))

    def write(_: Any, options: dict[str, str]) -> DeliveryReport:
        report = DeliveryReport(query_id="q", batch_id=next(batches))
        write_report(options["reportpath"], report.to_json())
        return report

    monkeypatch.setattr(micro_batches, "write", write)
    monkeypatch.setattr(retention, "KEPT", 5)
    for batch in range(9):
        micro_batch_writer({**SERVERS, "reportPath": str(tmp_path / template)})(FRAME, batch)
    reports = map(DeliveryReport.read, tmp_path.rglob("*.json"))
    assert sorted(report.batch_id or 0 for report in reports) == [4, 5, 6, 7, 8]
    assert len(list(tmp_path.iterdir())) == 5


def test_report_that_can_no_longer_be_written_does_not_stop_the_query(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a stream, only the first micro-batch fails."""
    is_writable = True
    written: list[dict[str, str]] = []

    def write(_: Any, options: dict[str, str]) -> DeliveryReport:
        if not is_writable and "reportpath" in options:
            raise ReportError("the disk is full")
        written.append(options)
        return DeliveryReport()

    monkeypatch.setattr(micro_batches, "write", write)
    options = {**SERVERS, "reportPath": "/no/such/folder"}
    writer = micro_batch_writer(options)
    writer(FRAME, 0)
    is_writable = False
    writer(FRAME, 1)
    assert written == [{**SERVERS, "reportpath": "/no/such/folder/batch-0.json"}, SERVERS]
    assert "micro-batch 1 has no report: the disk is full" in caplog.text
    with pytest.raises(ReportError):
        micro_batch_writer(options)(FRAME, 1)


def test_exactly_once_needs_a_batch_id(written: list[dict[str, str]]) -> None:
    assert options_of(written, deliveryGuarantee="exactly-once", transactionalIdPrefix="p") == {
        "deliveryguarantee": "exactly-once",
        "transactionalidprefix": "p",
        "batchid": "3",
    }


def test_batch_id_option_of_the_user_is_rejected() -> None:
    with pytest.raises(ConfigError, match="batchId"):
        micro_batch_writer({"batchId": "3"})


@pytest.mark.parametrize("options", [0, "events", None])
def test_other_objects_than_options_are_explained(options: Any) -> None:
    with pytest.raises(ConfigError, match=r"foreachBatch\(micro_batch_writer\(options\)\)"):
        micro_batch_writer(options)


def test_spark_connect_can_serialize_the_writer() -> None:
    sent = cloudpickle.dumps(micro_batch_writer(SERVERS))  # type: ignore[no-untyped-call]
    with pytest.raises(ConfigError, match="needs a DataFrame"):  # that of `write`
        pickle.loads(sent)(FRAME, 0)
