"""kafkaprod broker: the embedded broker as a process of its own."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import typer

from spark_kafka_sink.broker.embedded import EmbeddedBroker

if TYPE_CHECKING:
    from spark_kafka_sink.broker.config import BrokerOptions

READY = "kafkaprod broker ready on"


def serve(options: BrokerOptions) -> None:
    """Run a broker until SIGINT or SIGTERM; says READY and its addresses when clients may come.

    Raises:
        KafkaProdError: it can't be started.
    """
    stop = threading.Event()
    previous = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with EmbeddedBroker(**options) as kafka:
            typer.echo(f"{READY} {kafka.bootstrap_servers}")
            stop.wait()
        typer.echo("kafkaprod broker stopped")
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
