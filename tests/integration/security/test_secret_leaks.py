"""Logs, reports and metrics of a secured session contain no secrets."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.cli.main import app
from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.producer.session_pool import borrow_session, discard_session
from spark_kafka_sink.report.display.summary import summarize
from spark_kafka_sink.report.display.tables import print_advice, print_report
from spark_kafka_sink.report.export.exporters import export_metrics
from spark_kafka_sink.report.export.java_metrics import java_metrics
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.producer_writes import rows

PASSWORD, WRONG = "S3NT-of-alice", "S3NT-wrong"


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tls=True, sasl={"alice": PASSWORD}, topics={"t": 1}) as kafka:
        yield kafka


def client_options(kafka: EmbeddedBroker, mechanism: str) -> dict[str, str]:
    pair = kafka.client_certificate("alice")
    login = kafka.client_options("alice", mechanism=mechanism, certificate=pair)
    return login | {"kafka.debug": "all", "kafka.statistics.interval.ms": "1"}


def write(config: SinkConfig) -> DeliveryReport:
    session = borrow_session(config.producer)
    try:
        session.append(rows("t", [b"a"]))
        session.flush()
        return session.report(TaskAttempt())
    finally:
        discard_session(session)


def secrets_of(options: dict[str, str]) -> list[str]:
    return [PASSWORD, WRONG, options["kafka.ssl.keystore.key"].splitlines()[2]]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_logs_reports_and_metrics(
    secured: EmbeddedBroker, mechanism: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = client_options(secured, mechanism)
    wrong = {name: value.replace(PASSWORD, WRONG) for name, value in options.items()}
    file = tmp_path / "metrics.prom"
    config = SinkConfig.parse(options | {"metrics.prometheus.textfile": str(file)})
    with caplog.at_level(logging.DEBUG):
        report = write(config)
        export_metrics(report, config)
        with pytest.raises(AuthenticationError) as caught:
            write(SinkConfig.parse(wrong))
    shown = io.StringIO()
    print_report(report, Console(file=shown, width=200))
    print_advice(report, Console(file=shown, width=200))
    texts = [caplog.text, str(caught.value), repr(caught.value), report.to_json(), repr(config)]
    texts += [summarize(report), shown.getvalue(), file.read_text()]
    texts += [repr(java_metrics(report, 1.0))]  # attributes for OpenTelemetry
    assert "statistics" in caplog.text
    assert mechanism in caplog.text + str(caught.value)
    assert json.loads(report.to_json())["records"] == 1
    for text in texts:
        assert not [mark for mark in secrets_of(options) if mark in text]


@pytest.mark.parametrize("option", ["kafka.sasl.password", "kafka.sasl.pasword", "sasl.password"])
def test_the_command_line(option: str) -> None:
    arguments = ["demo", "--option", f"{option}={WRONG}", "--bootstrap-servers", "127.0.0.1:1"]
    more = ["--option", "kafka.security.protocol=SASL_SSL", "--option", "kafka.sasl.mechanism=X"]
    result = CliRunner().invoke(app, arguments + more)
    assert result.exit_code == 1
    assert "kafkaprod: " in result.output
    assert WRONG not in result.output
