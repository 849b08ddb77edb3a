"""What every command does first that connects to a Kafka: see whether any broker answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from spark_kafka_sink.admin.blocking_client import BlockingClient
from spark_kafka_sink.diagnostics.doctor import SECONDS
from spark_kafka_sink.diagnostics.examination import connect
from spark_kafka_sink.diagnostics.quiet_log import quiet_log

if TYPE_CHECKING:
    from spark_kafka_sink.config.model import ProducerConfig

TIMEOUT_S: Final = SECONDS
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", min=0.1, metavar="SECONDS", help="Seconds in which a broker must answer."
    ),
]


def reach(config: ProducerConfig, timeout: float) -> None:
    """Wait until a broker has told of its cluster.

    Raises:
        KafkaProdError: none has within so many seconds; the message says why, and the hint what to
            look at.
    """
    with quiet_log("spark_kafka_sink.client"), BlockingClient(config) as client:
        failure = connect(client, timeout)
    if failure is not None and failure.error is not None:
        raise failure.error
