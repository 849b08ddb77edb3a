"""The Spark settings in `conf/` with large rows."""

from pathlib import Path

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.spark.runtime.spark_releases import ARROW_BATCH_BYTES
from tests.spark.support.children import run_child
from tests.spark.support.sink import Sink
from tools.support.jars import ROOT
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import count

ROWS = 10_000


def test_shipped_settings_write_large_rows_with_a_small_heap(
    real_kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    """600 MB in rows of 60 KB with 1 GiB of heap: ten thousand rows exceed one batch."""
    report = tmp_path / "report.json"
    properties = ROOT / "conf" / "spark-defaults.conf"
    arguments = (str(properties), real_kafka.bootstrap_servers, topic, str(report), str(ROWS))
    run_child("large_rows", *arguments, timeout_s=560)
    assert count(real_kafka.bootstrap_servers, topic) == ROWS
    written = DeliveryReport.from_json(report.read_text())
    assert written.persisted == ROWS
    settings = dict(written.metrics.settings)
    assert settings["spark.sql.execution.arrow.maxBytesPerBatch"] == str(4 * 1024 * 1024)
    assert settings["spark.sql.execution.arrow.maxRecordsPerBatch"] == "10000"


def test_report_contains_batch_settings_of_the_session(
    sink: Sink, topic: str, tmp_path: Path
) -> None:
    bytes_name = "spark.sql.execution.arrow.maxBytesPerBatch"
    seen = []
    try:
        for text in (None, "2147483647", "16m"):
            if text is not None:
                sink.spark.conf.set(bytes_name, text)
            path = tmp_path / f"{text}.json"
            sink.write(sink.frame("value string", ("a",)), topic=topic, reportPath=str(path))
            report = DeliveryReport.from_json(path.read_text())
            seen.append(dict(report.metrics.settings)[bytes_name])
    finally:
        sink.spark.conf.unset(bytes_name)
    assert seen == [str(ARROW_BATCH_BYTES), "2147483647", str(16 * 1024 * 1024)]
