"""Exporters with the real libraries; a recording server replaces the Pushgateway."""

import io
import json
import math
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from prometheus_client.parser import text_string_to_metric_families

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.report.export.exporters import export_metrics
from tests.unit.report.export.two_batches import report


def config(**options: str) -> SinkConfig:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return SinkConfig.parse({"kafka.bootstrap.servers": "a:1", **named})


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_textfile_has_counters_of_all_writes_and_gauges_of_the_last(tmp_path: Path) -> None:
    path = tmp_path / "kafka.prom"
    options = config(metrics_prometheus_textfile=str(path), kafka_client_id="me")
    export_metrics(report(), options)
    export_metrics(report(), options)
    metrics, me = samples(path.read_text()), ("client_id", "me")
    assert metrics["kafka_producer_record_send_total", (me,)] == 80
    assert metrics["kafka_producer_record_send_rate", (me,)] == 20
    assert metrics["kafka_producer_topic_byte_total", (me, ("topic", "u"))] == 500
    assert metrics["kafka_producer_node_request_total", (me, ("node_id", "1"))] == 6
    assert [file.name for file in tmp_path.iterdir()] == ["kafka.prom"]


def test_textfile_has_counters_of_writes_that_end_at_the_same_time(tmp_path: Path) -> None:
    """Each of a user's threads can call `write`."""
    path = tmp_path / "threads.prom"
    options = config(metrics_prometheus_textfile=str(path))
    start = threading.Barrier(4)

    def end_writes(_: int) -> None:
        start.wait(20)
        for _ in range(10):
            export_metrics(report(), options)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(end_writes, range(4)))
    assert samples(path.read_text())["kafka_producer_record_send_total", ()] == 40 * 40


def test_latencies_are_histograms_that_prometheus_can_aggregate(tmp_path: Path) -> None:
    path = tmp_path / "histograms.prom"
    export_metrics(report(), config(metrics_prometheus_textfile=str(path)))
    metrics = samples(path.read_text())
    name = "kafka_producer_record_queue_time_seconds"
    assert metrics[f"{name}_count", ()] == metrics[f"{name}_bucket", (("le", "+Inf"),)] == 2
    assert metrics[f"{name}_sum", ()] == pytest.approx(0.04)
    (bound,) = {
        float(labels[0][1]) for metric_name, labels in metrics if metric_name == f"{name}_bucket"
    } - {float("inf")}
    assert 0.02 <= bound <= 0.026


@contextmanager
def push_receiver() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Run a server; yield its address and the received bodies by path."""
    taken: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            taken[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}", taken
        server.shutdown()
        thread.join()


def test_pushgateway_receives_the_group_of_this_driver() -> None:
    with push_receiver() as (address, taken):
        options = config(metrics_prometheus_pushgateway=address, kafka_client_id="me")
        export_metrics(report(), options)
    ((path, body),) = taken.items()
    assert path.startswith("/metrics/job/kafkaprod/")
    assert "/client_id/me" in path
    assert "/instance/" in path
    assert samples(body.decode())["kafka_producer_record_send_total", ()] == 40


def test_opentelemetry_receives_counters_and_gauges_with_attributes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = io.StringIO()
    exporter = ConsoleMetricExporter(lines, lambda data: data.to_json(indent=None) + "\n")
    provider = MeterProvider([PeriodicExportingMetricReader(exporter, math.inf)])
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", provider)
    options = config(metrics_opentelemetry="true", kafka_client_id="me")
    export_metrics(report(), options)
    export_metrics(report(), options)
    (scope,) = json.loads(lines.getvalue().splitlines()[-1])["resource_metrics"][0]["scope_metrics"]
    assert scope["scope"]["name"] == "spark_kafka_sink"
    metrics = {
        (metric["name"], tuple(sorted(point["attributes"].items()))): point["value"]
        for metric in scope["metrics"]
        for point in metric["data"]["data_points"]
    }
    me = ("client_id", "me")
    assert metrics["kafka.producer.record_send_total", (me,)] == 80
    assert metrics["kafka.producer.record_send_rate", (me,)] == 20
    assert metrics["kafka.producer.topic.record_send_total", (me, ("topic", "t"))] == 20
    assert metrics["kafka.producer.node.request_latency_max", (me, ("node_id", "1"))] == 9


def test_missing_meter_provider_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """As in the Python worker that commits a write of the format."""
    options = config(metrics_opentelemetry="true", kafka_client_id="without a provider")
    for _ in range(2):
        export_metrics(report(), options)
    (message,) = caplog.messages
    assert "no meter provider" in message


def test_failing_exporter_is_logged_and_others_continue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "good.prom"
    options = config(
        metrics_prometheus_textfile=str(tmp_path / "missing" / "x.prom"),
        metrics_prometheus_pushgateway="127.0.0.1:1",
    )
    export_metrics(report(), options)
    export_metrics(report(), config(metrics_prometheus_textfile=str(path)))
    assert "exported to textfile" in caplog.text
    assert "exported to pushgateway" in caplog.text
    assert path.exists()


@pytest.mark.parametrize(
    ("module", "option", "extra"),
    [
        ("prometheus_client", "metrics_prometheus_textfile", "prometheus"),
        ("prometheus_client", "metrics_prometheus_pushgateway", "prometheus"),
        ("opentelemetry", "metrics_opentelemetry", "opentelemetry"),
    ],
)
def test_missing_extra_is_reported_before_anything_is_written(
    module: str, option: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"{option.replace('_', '.')}.*\[{extra}\]"):
        config(**{option: "true"})


def test_libraries_are_imported_on_demand() -> None:
    code = (
        "import sys, spark_kafka_sink.report.export.exporters\n"
        "import spark_kafka_sink.config.sink_config\n"
        "print([m for m in ('prometheus_client', 'opentelemetry') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
