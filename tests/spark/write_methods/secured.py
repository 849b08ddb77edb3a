"""Write methods for a secured broker, with a certificate authority file that Spark ships."""

from dataclasses import replace
from pathlib import Path

from spark_kafka_sink import EmbeddedBroker
from tests.spark.write_methods.batch import BATCH
from tests.spark.write_methods.stream import STREAMS

TRUST = "write-methods-trust.pem"
_NAMES = ("save", "stream-append-available-now", "stream-for-each-batch")
SECURED = tuple(
    replace(method, name=f"secured-{method.name}")
    for method in (*BATCH, *STREAMS)
    if method.name in _NAMES
)


def write_trust_file(broker: EmbeddedBroker, folder: Path) -> tuple[Path, dict[str, str]]:
    """Write the certificate authority to a file; return it and options with its name."""
    path = folder / TRUST
    path.write_text(broker.ca_certificate)
    options = broker.client_options("alice")
    del options["kafka.bootstrap.servers"], options["kafka.ssl.truststore.certificates"]
    return path, options | {"kafka.ssl.truststore.location": TRUST}
