"""The text and the advice of a dry run's report."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from spark_kafka_sink.report.advice.advice_rules import advise
from spark_kafka_sink.report.codec_cost import CodecCost
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.display.key_figures import figures_of
from spark_kafka_sink.report.display.notebook_html import to_html
from spark_kafka_sink.report.display.summary import summarize, summary_line
from spark_kafka_sink.report.display.tables import print_report
from spark_kafka_sink.report.metrics.producer_metrics import ProducerMetrics
from spark_kafka_sink.report.partition_report import PartitionReport


def cost(codec: str, ratio: float, us_per_record: float) -> CodecCost:
    """Create the cost of 10,000 records of 100 bytes in two batches."""
    return CodecCost(
        codec=codec,
        batches=2,
        records=10_000,
        bytes_uncompressed=1_000_000,
        bytes_compressed=round(1_000_000 / ratio),
        cpu_ns=round(10_000 * us_per_record * 1000),
    )


ALL = NONE, GZIP, SNAPPY, LZ4, ZSTD = (
    cost("none", 1, 0),
    cost("gzip", 3.6, 3),
    cost("snappy", 1.9, 0.2),
    cost("lz4", 2.0, 0.15),
    cost("zstd", 3.5, 0.4),
)


def part(number: int, records: int) -> PartitionReport:
    return PartitionReport(
        topic="t",
        partition=number,
        batches=records // 5000,
        would_be_written=records,
        bytes_uncompressed=100 * records,
        bytes_sent=100 * records,
    )


def dry_run(*codecs: CodecCost, configured: str = "none") -> DeliveryReport:
    settings = (("batch.size", "1048576"), ("compression.type", configured), ("linger.ms", "50"))
    return DeliveryReport(
        dry_run=True,
        tasks=1,
        partitions=(part(0, 30_000), part(1, 10_000), part(2, 0), part(3, 0)),
        duration_max_ms=1000,
        duration_sum_ms=1000,
        codecs=codecs,
        metrics=ProducerMetrics(closed_full=7, closed_flush=1, settings=settings),
    )


def test_summary_says_what_would_be_sent() -> None:
    assert summarize(dry_run(*ALL)) == (
        "Kafka dry run: nothing was sent\n"
        "  records         40,000 would be written\n"
        "  size            4.0 MB, 4.0 MB to be sent\n"
        "  spread          1 topic, 4 partitions, 8 batches, 1 task\n"
        "  time            1.0 s, 40,000 records/s, 4.0 MB/s in the slowest task\n"
        "  batches         mean 500.0 kB (48% of batch.size), 5,000 records; "
        "closed 7 full, 1 with no more rows\n"
        "  skew            t-0 gets 3.0 times the mean of its topic's partitions; "
        "2 of them are empty\n"
        "  codecs          measured on 2 of the batches, 1.0 MB\n"
        "    none          1.0 to 1\n"
        "    gzip          3.6 to 1, 3.00 µs of CPU per record, 33 MB/s\n"
        "    snappy        1.9 to 1, 0.20 µs of CPU per record, 500 MB/s\n"
        "    lz4           2.0 to 1, 0.15 µs of CPU per record, 667 MB/s\n"
        "    zstd          3.5 to 1, 0.40 µs of CPU per record, 250 MB/s\n"
        "  problems        0 retries, 0 split batches, throttled 0 ms, "
        "0 tasks on a later attempt\n"
        "  topic           t: 40,000 records in 4 partitions\n"
        "  advice          set kafka.compression.type=zstd: it would send 3.5 "
        "times fewer bytes for 0.40 µs more CPU per record (zstd compresses 3.5 to 1, none 1.0 to "
        "1, measured on 2 batches)"
    )


def test_nothing_is_called_delivered() -> None:
    report = dry_run(*ALL)
    assert (report.records, report.persisted, report.would_be_written) == (40_000, 0, 40_000)
    assert {status.records for status in report.statuses()} == {30_000, 10_000}
    assert "would_be_written=40000, persisted=0" in repr(report)
    screen = StringIO()
    print_report(report, Console(file=screen, width=200))
    for text in (summarize(report), summary_line(report), to_html(report), screen.getvalue()):
        assert "would be" in text
        assert "acknowledged" not in text
        assert "possibly not delivered" not in text
    assert "3.50 to 1" in screen.getvalue()
    figures = {figure.name: figure.value for figure in figures_of(report)}
    assert (figures["records persisted"], figures["records of a dry run"]) == (0, 40_000)


def test_partitions_are_sorted_by_size() -> None:
    screen = StringIO()
    print_report(dry_run(), Console(file=screen, width=200))
    rows = [line.split() for line in screen.getvalue().splitlines() if "t-" in line]
    shown = [(row[1], row[3], row[5]) for row in rows if row[1].startswith("t-")]
    assert shown == [
        ("t-0", "30,000", "3.00"),
        ("t-1", "10,000", "1.00"),
        ("t-2", "0", "0.00"),
        ("t-3", "0", "0.00"),
    ]
    html = to_html(dry_run(*ALL))
    assert "<td>t-0</td><td>30,000</td><td>3.00</td>" in html
    assert "white-space:pre'>  gzip" in html, "codecs are indented"


def test_merged_dry_run_and_write_are_not_called_unsent() -> None:
    write = DeliveryReport(partitions=(PartitionReport(topic="t", partition=0, persisted=9),))
    text = summarize(dry_run() + write)
    assert text.startswith("Kafka delivery report, dry runs included\n")
    assert "9 persisted, 40,000 would be written" in text


def test_dry_run_without_rows() -> None:
    assert "0 would be written" in summarize(DeliveryReport(dry_run=True))


@pytest.mark.parametrize(
    ("configured", "codecs", "advice"),
    [
        ("none", ALL, "zstd would send 3.5 times fewer bytes for 0.40 µs more CPU per record"),
        ("lz4", ALL, "zstd would send 1.8 times fewer bytes for 0.25 µs more CPU per record"),
        ("gzip", ALL, "zstd would send about as many bytes for 2.60 µs less CPU per record"),
        ("zstd", ALL, None),
        ("none", (NONE, cost("lz4", 1.01, 0.1), cost("zstd", 1.05, 0.3)), None),
        ("zstd", (NONE, cost("zstd", 1.05, 0.3)), "none would send about as many bytes for 0.30"),
        ("none", (NONE, GZIP), None),  # smaller, and too slow
        ("none", (), None),
    ],
)
def test_better_codec_is_advised(
    configured: str, codecs: tuple[CodecCost, ...], advice: str | None
) -> None:
    all_advice = advise(dry_run(*codecs, configured=configured))
    assert len(all_advice) == (advice is not None)
    if advice is not None:
        codec, effect = advice.split(" ", 1)
        assert f"set kafka.compression.type={codec}: it {effect}" in str(all_advice[0])


def test_small_sample_gives_no_advice() -> None:
    small = tuple(replace(cost, bytes_uncompressed=1000) for cost in ALL)
    assert advise(dry_run(*small)) == []


def test_brokers_are_not_rated() -> None:
    report = replace(dry_run(), throttle_ms=900, retries=9)
    assert advise(report) == []
    assert advise(replace(report, dry_run=False)) != []
