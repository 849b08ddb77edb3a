"""Key figures of a report, and the comparison of two reports."""

from dataclasses import replace

from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.display.key_figures import compare, figures_of
from spark_kafka_sink.report.metrics.producer_metrics import ProducerMetrics
from spark_kafka_sink.report.partition_report import PartitionReport

PART = PartitionReport(
    topic="t",
    partition=0,
    persisted=1000,
    batches=4,
    bytes_uncompressed=8_000_000,
    bytes_sent=2_000_000,
)
REPORT = DeliveryReport(partitions=(PART,), duration_max_ms=2000, duration_ms=4000)


def of(report: DeliveryReport) -> dict[str, str]:
    return {figure.name: f"{figure.value:g} {figure.unit}".strip() for figure in figures_of(report)}


def test_rates_cover_the_whole_write() -> None:
    figures = of(REPORT)
    assert figures["rate"] == "250 records/s"
    assert figures["rate, encoded"] == "2 MB/s"
    assert figures["compression"] == "4 to 1"
    assert figures["records per batch"] == "250"
    assert of(replace(REPORT, duration_ms=0))["rate"] == "500 records/s"


def test_rates_exclude_the_start_of_workers() -> None:
    figures = of(replace(REPORT, startup_ms=3500))
    assert (figures["rate"], figures["start of Python workers"]) == ("2000 records/s", "3.5 s")


def test_empty_report_has_figures() -> None:
    assert of(DeliveryReport())["rate"] == "0 records/s"


def test_comparison_lists_changed_figures_and_settings() -> None:
    settings = (("acks", "all"), ("linger.ms", "0"))
    before = replace(REPORT, metrics=ProducerMetrics(settings=settings))
    later = (("acks", "all"), ("batch.size", "9"), ("linger.ms", "50"))
    after = replace(REPORT, duration_ms=2000, metrics=ProducerMetrics(settings=later))
    comparison = compare(before, after)
    rate = next(change for change in comparison.changes if change.name == "rate")
    assert (rate.before, rate.after, rate.percent) == (250, 500, 100)
    assert next(change for change in comparison.changes if change.name == "retries").percent is None
    assert comparison.settings == (("batch.size", "", "9"), ("linger.ms", "0", "50"))
    assert comparison.to_dict()["settings"][1] == {
        "name": "linger.ms",
        "before": "0",
        "after": "50",
    }
