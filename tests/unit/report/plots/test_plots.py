"""Figures can be drawn for any report and show its values."""

from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from spark_kafka_sink.common.histogram import Histogram, bucket_of
from spark_kafka_sink.report import plots
from spark_kafka_sink.report.codec_cost import CodecCost
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.metrics.producer_metrics import ProducerMetrics, TopicMetrics
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.plots.figures import DIVIDED, MULTIPLIED
from spark_kafka_sink.report.plots.panels import PARTITIONS_SHOWN, time_shares

mpl.use("Agg")

PARTS = tuple(
    PartitionReport(topic="events", partition=n, persisted=100 * n, not_persisted=n % 2, batches=2)
    for n in range(1, 4)
)
TIMES = Histogram(
    buckets=((bucket_of(900), 3), (bucket_of(5000), 1)), total=7700, low=900, high=5000
)
REPORT = DeliveryReport(
    partitions=PARTS,
    request_latency=TIMES,
    duration_ms=2000,
    metrics=ProducerMetrics(closed_full=5, settings=(("batch.size", "16384"),)),
)
MANY = replace(
    REPORT,
    partitions=tuple(PartitionReport(topic="t", partition=n, persisted=n) for n in range(2000)),
)


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    yield
    assert not plt.get_fignums()


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def heights(axes: Axes) -> list[float]:
    return [bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle)]


@pytest.mark.parametrize("report", [DeliveryReport(), REPORT, MANY])
def test_write_has_six_panels(report: DeliveryReport) -> None:
    figure = plots.show(report)
    figure.canvas.draw()
    assert len(figure.axes) == 6
    assert f"{report.persisted:,} records" in str(figure.get_suptitle())


def test_dry_run_shows_codecs_instead_of_latencies() -> None:
    costs = (
        CodecCost(codec="none", bytes_uncompressed=1000, bytes_compressed=1000),
        CodecCost(
            codec="lz4", records=10, bytes_uncompressed=1000, bytes_compressed=250, cpu_ns=9000
        ),
    )
    parts = (PartitionReport(topic="events", partition=0, would_be_written=50),)
    report = DeliveryReport(dry_run=True, partitions=parts, codecs=costs)
    figure = plots.show(report)
    figure.canvas.draw()
    assert "nothing was sent; 50 records" in str(figure.get_suptitle())
    assert heights(figure.axes[0]) == [50]
    assert "Latency, p99 dotted" not in titles(figure)
    codecs = figure.axes[titles(figure).index("Codecs, measured on a sample")]
    assert [bar.get_width() for bar in codecs.patches if isinstance(bar, Rectangle)] == [100, 25]
    assert [text.get_text().strip() for text in codecs.texts] == ["1.0 to 1", "4.0 to 1, 0.90 µs"]


def test_partitions_have_bars_for_delivered_and_other_records() -> None:
    delivered, others = plots.show(REPORT).axes[0].containers
    assert [bar.get_height() for bar in delivered] == [100, 200, 300]
    assert [bar.get_height() for bar in others] == [1, 0, 1]
    assert len(plots.show(MANY).axes[0].patches) == PARTITIONS_SHOWN


def test_each_micro_batch_has_a_bar() -> None:
    reports = [replace(REPORT, batch_id=number, retries=number) for number in (3, 4)]
    figure = plots.show_stream(reports)
    figure.canvas.draw()
    assert heights(figure.axes[2]) == [3, 4]
    assert titles(figure)[0] == "Records of each micro-batch"


def test_dollar_signs_in_names_are_no_formulas() -> None:
    metrics = ProducerMetrics(settings=(("client.id", "$x^$"),))
    named = replace(REPORT, query_name="$x^$", metrics=metrics)
    for figure in (plots.show_stream([named]), plots.show_comparison(REPORT, named)):
        figure.savefig(BytesIO())


def test_compared_writes_have_adjacent_bars() -> None:
    figure = plots.show_comparison(REPORT, replace(REPORT, duration_ms=1000))
    figure.canvas.draw()
    assert titles(figure)[1] == f"rate\n{MULTIPLIED} 2"
    assert heights(figure.axes[1]) == [300, 600]


def test_different_settings_are_named() -> None:
    changed = replace(REPORT.metrics, settings=(("batch.size", "1048576"), ("linger.ms", "5")))
    figure = plots.show_comparison(REPORT, replace(REPORT, metrics=changed, duration_ms=4000))
    assert titles(figure)[1] == f"rate\n{DIVIDED} 2"
    (text,) = (label.get_text() for label in figure.axes[-1].texts)
    assert [line.strip() for line in text.splitlines()] == [
        *("batch.size", "16,384 → 1,048,576"),
        *("linger.ms", "not set → 5"),
    ]


@pytest.mark.parametrize(
    ("codec", "title"), [("none", ", not compressed"), ("zstd", ", zstd: 4.0 to 1")]
)
def test_codec_is_in_the_title(codec: str, title: str) -> None:
    part = replace(PARTS[0], bytes_uncompressed=4000, bytes_sent=1000)
    metrics = replace(REPORT.metrics, settings=(("compression.type", codec),))
    figure = plots.show(replace(REPORT, partitions=(part,), metrics=metrics))
    assert titles(figure)[1] == f"Size by partition{title}"


def test_latency_axis_has_a_decade_and_plain_numbers() -> None:
    once = Histogram(buckets=((bucket_of(2000), 1),), total=2000, low=2000, high=2000)
    figure = plots.show(replace(REPORT, request_latency=once))
    figure.canvas.draw()
    axes = figure.axes[3]
    low, high = axes.get_xlim()
    assert high / low >= 10
    assert {"1", "2", "5"} <= {label.get_text() for label in axes.get_xticklabels()}


def test_micro_batch_without_requests_has_no_latency() -> None:
    empty = DeliveryReport(batch_id=0)
    plots.show_stream([empty]).canvas.draw()
    figure = plots.show_stream([empty, replace(REPORT, batch_id=1)])
    (line,) = figure.axes[3].lines
    assert np.isnan(line.get_ydata()).tolist() == [True, False]


def test_time_shares_are_stacked() -> None:
    metrics = ProducerMetrics(buffer_wait=2_000_000, append_time=3_000_000, flush_time=5_000_000)
    shares = time_shares(DeliveryReport(duration_sum_ms=10_000, metrics=metrics))
    assert list(shares.values()) == [20, 10, 20, 50]
    short = time_shares(DeliveryReport(duration_sum_ms=4_000, metrics=metrics))
    assert sum(short.values()) == 100
    assert min(short.values()) >= 0
    assert sum(time_shares(DeliveryReport()).values()) == 0


def test_empty_partitions_stay_on_the_axis() -> None:
    topics = (TopicMetrics(topic="events", partitions=6),)
    report = replace(REPORT, metrics=replace(REPORT.metrics, topics=topics))
    records = plots.show(report).axes[0]
    assert [label.get_text() for label in records.get_xticklabels()] == list("012345")
