"""Shipped stores are opened by name; the driver checks them first."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.spark.support.sink import SHORT, Sink
from tools.support.certificates import CertificateAuthority

AUTHORITY = CertificateAuthority()
SSL = {"kafka.security.protocol": "SSL", **SHORT}


def test_open_shipped_stores_by_name(sink: Sink, tmp_path: Path) -> None:
    """In the driver and in the task, whose working directories do not contain the stores."""
    with EmbeddedBroker(topics={"t": 1}, tls=True, client_certificates="required") as broker:
        client = broker.client_certificate("alice")
        stores = {
            "shipped-ca.pem": broker.ca_certificate,
            "shipped-client.pem": client.certificate + client.key,
        }
        for name, text in stores.items():
            (tmp_path / name).write_text(text)
            sink.spark.sparkContext.addFile(str(tmp_path / name))
        options = {
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": "shipped-ca.pem",
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.location": "shipped-client.pem",
        }
        secured = replace(sink, bootstrap_servers=broker.bootstrap_servers)
        secured.write(sink.frame("value string", ("a",)), topic="t", **SSL, **options)
        assert broker.end_offsets("t") == [1]


def test_wrong_password_fails_before_any_task(sink: Sink, tmp_path: Path) -> None:
    """The store is not in the driver's working directory."""
    path = AUTHORITY.client("alice").write(tmp_path, "wrong-password-client", password="right")
    sink.spark.sparkContext.addFile(str(path))
    options = {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": path.name,
        "kafka.ssl.key.password": "hunter2",
    }
    error, jobs = sink.jobs_of(
        lambda: sink.write(sink.frame("value string", ("a",)), topic="t", **SSL, **options)
    )
    assert "cannot be decrypted with kafka.ssl.key.password" in str(error)
    assert "hunter2" not in str(error)
    assert jobs == 0


@pytest.mark.parametrize("location", ["", "/somewhere/"])
def test_missing_store_in_a_task(sink: Sink, location: str) -> None:
    """The store can be missing on the driver, so the error comes from the task."""
    options = {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": f"{location}never-shipped.pem",
    }
    error, jobs = sink.jobs_of(
        lambda: sink.write(sink.frame("value string", ("a",)), topic="t", **SSL, **options)
    )
    assert "option kafka.ssl.truststore.location refers to the file" in str(error)
    assert f"{location}never-shipped.pem, which cannot be read on {socket.gethostname()}" in str(
        error
    )
    assert "--files" in str(error)
    assert jobs == 1
