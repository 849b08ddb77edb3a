"""Ways to write to a secured broker, whose authority is in a file that Spark ships."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.spark.ways.batch import BATCH
from tests.spark.ways.stream import STREAMS

if TYPE_CHECKING:
    from pathlib import Path

    from spark_kafka_sink import EmbeddedBroker

TRUST = "ways-trust.pem"
_NAMES = ("save", "stream-append-available-now", "stream-for-each-batch")
SECURED = tuple(
    replace(way, name=f"secured-{way.name}") for way in (*BATCH, *STREAMS) if way.name in _NAMES
)


def to_ship(broker: EmbeddedBroker, folder: Path) -> tuple[Path, dict[str, str]]:
    """The file of the authority, and options that have no more than its name."""
    path = folder / TRUST
    path.write_text(broker.ca_certificate)
    options = broker.client_options("alice")
    del options["kafka.bootstrap.servers"], options["kafka.ssl.truststore.certificates"]
    return path, options | {"kafka.ssl.truststore.location": TRUST}
