"""kafkaprod broker: the embedded broker as a process of its own."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from spark_kafka_sink.broker.embedded import EmbeddedBroker
from spark_kafka_sink.broker.security.settings import ClientAuth
from spark_kafka_sink.cli.broker_security import client_lines
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from spark_kafka_sink.broker.config import BrokerOptions

READY = "kafkaprod broker ready on"


def serve(options: BrokerOptions, ca_file: str | None = None) -> None:
    """Run a broker until SIGINT or SIGTERM; says READY and its addresses when clients may come.

    Where it is secured, it says what clients need, too.

    Args:
        options: those of `EmbeddedBroker`.
        ca_file: where to write the certificate that clients trust; a temporary file by default.

    Raises:
        KafkaProdError: it can't be started.
    """
    if ca_file is not None and not options.get("tls"):
        raise ConfigError(
            "--ca-file is given without --tls", hint="Add --tls, or leave --ca-file out"
        )
    stop = threading.Event()
    previous = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with EmbeddedBroker(**options) as kafka:
            typer.echo(f"{READY} {kafka.bootstrap_servers}")
            if options.get("tls") or kafka.config.security.mechanisms:
                _say_how_to_come(kafka, ca_file)
            stop.wait()
        typer.echo("kafkaprod broker stopped")
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _say_how_to_come(kafka: EmbeddedBroker, ca_file: str | None) -> None:
    path = None
    if kafka.config.tls:
        path = kafka.ca_file if ca_file is None else Path(ca_file)
        path.write_text(kafka.ca_certificate, encoding="utf-8")
    own = None
    if kafka.config.security.client_auth is ClientAuth.REQUIRED:
        own = kafka.client_certificate_files(kafka.client_certificate("client"))
    for line in client_lines(kafka, path, own):
        typer.echo(line)
