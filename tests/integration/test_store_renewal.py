"""New connections use trust stores and key stores that were replaced on disk.

A client that writes rarely closes its idle connections in between (connections.max.idle.ms).
"""

from pathlib import Path

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.security.settings import TlsFiles
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.producer.session import ProducerSession
from tests.support.producer_writes import rows, session
from tests.support.waiting import wait_until
from tools.support.certificates import CertificateAuthority

SOON = {"max_block_ms": 10_000, "delivery_timeout_ms": 10_000, "request_timeout_ms": 5_000}


def server_files(folder: Path, authority: CertificateAuthority) -> TlsFiles:
    path = str(authority.server("localhost", "127.0.0.1").write(folder, "server"))
    return TlsFiles(certificate=path, key=path, ca=str(authority.write(folder, "server-ca")))


def options(folder: Path, authority: CertificateAuthority) -> dict[str, object]:
    """Return the options of a client with its own stores."""
    return {
        "security_protocol": "SSL",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": authority.write(folder, "trust"),
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": authority.client("alice").write(folder, "client"),
        "connections_max_idle_ms": 200,
        **SOON,
    }


def write(producer: ProducerSession, value: bytes) -> None:
    producer.append(rows("t", [value]))
    producer.flush()


def test_new_certificate_authority(tmp_path: Path) -> None:
    now, then = CertificateAuthority("Now"), CertificateAuthority("Then")
    files = server_files(tmp_path, now)
    with (
        EmbeddedBroker(topics={"t": 1}, tls=files, client_certificates="required") as broker,
        session(broker.bootstrap_servers, **options(tmp_path, now)) as producer,
    ):
        write(producer, b"before")
        wait_until(lambda: not broker.open_connections)
        broker.change_certificate(server_files(tmp_path, then))
        options(tmp_path, then)
        write(producer, b"after")
        assert broker.end_offsets("t") == [2]


def test_client_with_old_authority_fails(tmp_path: Path) -> None:
    now, then = CertificateAuthority("Now"), CertificateAuthority("Then")
    files = server_files(tmp_path, now)
    with (
        EmbeddedBroker(topics={"t": 1}, tls=files) as broker,
        session(broker.bootstrap_servers, **options(tmp_path, now)) as producer,
    ):
        write(producer, b"before")
        wait_until(lambda: not broker.open_connections)
        broker.change_certificate(server_files(tmp_path, then))
        with pytest.raises(KafkaProdError) as caught:
            write(producer, b"after")
        assert "not trusted, CN=Then" in str(caught.value)
        assert broker.end_offsets("t") == [1]
