"""Reading, merging and displaying reports."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.report.bad_row_count import BadRowCount
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.display.summary import summary_line
from spark_kafka_sink.report.partition_report import PartitionReport
from tests.unit.report.strategies import reports

PART = PartitionReport(
    topic="<b>t",
    partition=0,
    persisted=90,
    batches=2,
    bytes_uncompressed=10,
    first_offset=5,
    last_offset=94,
)
LETTERS = PartitionReport(topic="dlq", partition=0, persisted=7)
POISON = (
    BadRowCount(reason="NULL_VALUE", dead_lettered=7),
    BadRowCount(reason="REJECTED", dropped=3),
)
REPORT = DeliveryReport(
    tasks=2, partitions=(PART, LETTERS), poison=POISON, duration_ms=2000, duration_max_ms=500
)


def test_file_and_folder_of_micro_batches(tmp_path: Path) -> None:
    for number in (0, 2, 10):
        text = replace(REPORT, batch_id=number, query_name="q").to_json()
        (tmp_path / f"batch-{number}.json").write_text(text)
    (tmp_path / "other.txt").write_text("no report")
    assert DeliveryReport.read(tmp_path / "batch-2.json").batch_id == 2
    assert DeliveryReport.read((tmp_path / "batch-2.json").as_uri()).batch_id == 2
    reports_of_batches = DeliveryReport.read_all(str(tmp_path))
    assert [report.batch_id for report in reports_of_batches] == [0, 2, 10]
    whole = DeliveryReport.read(tmp_path)
    assert (
        whole
        == sum(reports_of_batches)
        == reports_of_batches[0] + reports_of_batches[1] + reports_of_batches[2]
    )
    assert (whole.batch_id, whole.persisted, whole.duration_ms) == (10, 291, 6000)


def test_folder_of_another_file_system(tmp_path: Path) -> None:
    place = f"mock:///{tmp_path.name}"
    with pytest.raises(ReportError, match="mock:///"):
        DeliveryReport.read(place)


def test_folder_without_reports_and_invalid_file(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"batch-<id>\.json"):
        DeliveryReport.read(tmp_path)
    other = tmp_path / "x.json"
    for text, instead in (
        (b"{}", "its version is None"),
        (b"[]", "JSON list"),
        (b"", "empty"),
        (b"a = 1", "invalid JSON: Expecting value"),
        (b"\xff\xfe", "invalid JSON"),
    ):
        other.write_bytes(text)
        for path in (tmp_path, other):
            with pytest.raises(ReportError, match=rf"x\.json: .*{instead}"):
                DeliveryReport.read(path)
    with pytest.raises(ReportError, match=r"none\.json"):
        DeliveryReport.read(tmp_path / "none.json")


@given(reports())
def test_row_outcomes_are_summed(report: DeliveryReport) -> None:
    whole = report + REPORT
    lost = whole.records - whole.persisted - whole.would_be_written
    written = whole.records - whole.dead_lettered - lost
    assert whole.rows == written + whole.dead_lettered + whole.dropped + lost
    word = "would be written" if whole.dry_run else "written"
    assert f"rows            {whole.rows:,}: {written:,} {word}, 7 dead letters, 3 dropped" in str(
        whole
    )


def test_report_as_text() -> None:
    assert "2.0 s, 48 records/s, 5 B/s; slowest task 0.5 s" in str(REPORT)
    assert repr(REPORT) == (
        "<DeliveryReport status=succeeded, rows=100, persisted=97, dead_lettered=7, dropped=3, "
        "partitions=2, bytes_sent=0, duration_ms=2000>"
    )
    assert summary_line(replace(REPORT, retries=1, throttle_ms=9)) == (
        "97 persisted; 7 dead letters; 3 dropped; 10 B, 0 B sent; "
        "2.0 s, 48 records/s, 5 B/s; slowest task 0.5 s; 1 retry; throttled 9 ms"
    )


def test_html_is_escaped() -> None:
    html = REPORT._repr_html_()
    assert "&lt;b&gt;t-0" in html
    assert "<b>t" not in html
    assert "2 partitions" in html


def test_many_partitions_in_html() -> None:
    parts = tuple(PartitionReport(topic="t", partition=n, persisted=1) for n in range(500))
    lost = PartitionReport(topic="t", partition=999, not_persisted=1)
    html = replace(REPORT, partitions=(*parts, lost))._repr_html_()
    assert "t-999" in html
    assert "and 481 more partitions" in html
    assert len(html) < 10_000


def test_frame_has_a_row_for_each_partition() -> None:
    frame = REPORT.to_pandas()
    assert list(frame["topic"]) == ["<b>t", "dlq"]
    assert frame["records"].sum() == 97
    assert not [name for name in frame.columns if "seq" in name]
    assert frame["first_offset"].isna().tolist() == [False, True]
    assert frame["first_offset"][0] == 5
    assert DeliveryReport().to_pandas().empty


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1])
def test_pandas_has_exact_large_numbers(number: int) -> None:
    """Offsets of a broker with Redis storage can be that large."""
    part = PartitionReport(topic="t", partition=0, first_offset=number, last_append_time=number)
    frame = replace(REPORT, partitions=(part, *REPORT.partitions)).to_pandas()
    for name in ("first_offset", "last_append_time"):
        assert frame[name][0] == number
        assert frame[name].isna().any()
