"""A secured broker started from the command line, and the client options that it prints."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from tests.broker.support.command_line import run
from tests.support.producer_writes import numbered, produce

KAFKAPROD = [sys.executable, "-m", "spark_kafka_sink", "broker", "--port", "0"]
PASSWORD = "only-in-the-environment"
OPTIONS = ("--topic", "t", "--tls", "--sasl-user", "alice=env:ALICES_PASSWORD")


def read_output(process: subprocess.Popen[str], lines: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(lines)]


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [*KAFKAPROD, *OPTIONS, "--ca-file", str(tmp_path / "ca.crt")]
    environment = {**os.environ, "ALICES_PASSWORD": PASSWORD}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def test_printed_client_options(secured: subprocess.Popen[str], tmp_path: Path) -> None:
    ready, *lines = read_output(secured, 8)
    options = dict(line.removeprefix("kafka.").split("=", 1) for line in lines)
    assert options == {
        "bootstrap.servers": ready.split()[-1],
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.crt"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "env:ALICES_PASSWORD",
    }
    outcome: list[KafkaError | None] = []
    producer = Producer(
        {
            "bootstrap.servers": options["bootstrap.servers"],
            "security.protocol": options["security.protocol"],
            "ssl.ca.location": options["ssl.truststore.location"],
            "sasl.mechanism": options["sasl.mechanism"],
            "sasl.username": options["sasl.username"],
            "sasl.password": PASSWORD,
        }
    )
    producer.produce("t", b"x", on_delivery=lambda error, _: outcome.append(error))
    producer.flush(60)
    assert outcome == [None]


def test_client_certificate_is_printed_if_required() -> None:
    command = [*KAFKAPROD, "--topic", "t", "--tls", "--client-certificates", "required"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            ready, *lines = read_output(process, 8)
            options = dict(line.split("=", 1) for line in lines)
            assert ready.split()[-1] == options["kafka.bootstrap.servers"]
            login = {name.removeprefix("kafka."): value for name, value in options.items()}
            report = produce(login.pop("bootstrap.servers"), numbered("t", 0, 9, 1), **login)
            assert report.persisted == 9
        finally:
            process.kill()


def test_password_is_not_on_the_command_line(secured: subprocess.Popen[str]) -> None:
    read_output(secured, 1)
    assert PASSWORD not in Path(f"/proc/{secured.pid}/cmdline").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--sasl-user", "alice=secret-42"], "--sasl-user alice has no password reference"),
        (["--sasl-user", "alice=env:NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE, which is not set"),
        (["--sasl-mechanism", "GSSAPI"], "unknown mechanism GSSAPI in sasl_mechanisms"),
        (["--client-certificates", "required"], "but TLS is not enabled"),
        (["--tls", "--client-certificates", "maybe"], "Set required, requested or none"),
        (["--tls-certificate", "x.crt"], "Set --tls-certificate, --tls-key and --tls-ca"),
        (["--scram-iterations", "1000"], "Kafka's minimum is 4096"),
        (["--deny", "alice:Write:x"], "cannot parse the deny rule alice:Write:x"),
        (["--oauthbearer-jwks", "/nowhere"], "cannot be read"),
    ],
)
def test_invalid_security_options_are_rejected(options: list[str], reason: str) -> None:
    done = run("broker", "--port", "0", *options)
    assert done.returncode == 1
    assert reason in done.stderr
    assert "secret-42" not in done.stderr
