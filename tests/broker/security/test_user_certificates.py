"""Certificate files from the user, valid and invalid."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.security.settings import TlsFiles
from spark_kafka_sink.common.errors import ConfigError
from tests.broker.security.clients import WRITERS, Login
from tools.support.certificates import CertificateAuthority

PASSWORD = "opens the key"


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority()


@pytest.fixture
def files(authority: CertificateAuthority, tmp_path: Path) -> dict[str, str]:
    issued = authority.server("localhost", "127.0.0.1")
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    certificate.write_text(issued.chain_pem)
    key.write_text(issued.key_pem(PASSWORD))
    ca = authority.write(tmp_path)
    return {"certificate": str(certificate), "key": str(key), "ca": str(ca)}


@pytest.mark.parametrize("source", ["text", "env"])
def test_certificate_is_used(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("KEY_PASSWORD", PASSWORD)
    password = PASSWORD if source == "text" else "env:KEY_PASSWORD"
    own = TlsFiles(**files, key_password=password)
    assert PASSWORD not in repr(own)
    with EmbeddedBroker(topics={"t": 1}, tls=own) as broker:
        WRITERS["librdkafka"](broker, Login(ca_file=Path(files["ca"])), "t", b"x")
        assert broker.end_offsets("t") == [1]


def test_client_certificates_of_both_authorities(
    files: dict[str, str], authority: CertificateAuthority, tmp_path: Path
) -> None:
    own = TlsFiles(**files, key_password=PASSWORD)
    issued = authority.client("alice")
    theirs = (tmp_path / "alice.crt", tmp_path / "alice.key")
    theirs[0].write_text(issued.chain_pem)
    theirs[1].write_text(issued.key_pem())
    with EmbeddedBroker(topics={"t": 1}, tls=own, client_certificates="required") as broker:
        ours = broker.client_certificate_files(broker.client_certificate("bob"))
        for pair in (theirs, ours):
            WRITERS["librdkafka"](
                broker, Login(ca_file=Path(files["ca"]), certificate=pair), "t", b"x"
            )
        assert broker.end_offsets("t") == [2]


def test_replace_certificate_at_runtime(files: dict[str, str]) -> None:
    with EmbeddedBroker(topics={"t": 1}, tls=True) as broker:
        broker.change_certificate(TlsFiles(**files, key_password=PASSWORD))
        assert broker.ca_certificate == Path(files["ca"]).read_text()
        WRITERS["librdkafka"](broker, Login(ca_file=Path(files["ca"])), "t", b"x")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"key_password": "guessed"}, "cannot be used with the key"),
        ({"key_password": None}, "cannot be used with the key"),
        ({"certificate": "/nowhere.crt"}, "/nowhere.crt cannot be used with the key"),
        ({"ca": "/nowhere.crt"}, "/nowhere.crt cannot be read"),
        ({"key_password": "env:NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE, which is not set"),
    ],
)
def test_invalid_files(files: dict[str, str], change: dict[str, Any], reason: str) -> None:
    settings = {**files, "key_password": PASSWORD, **change}
    with pytest.raises(ConfigError, match=reason):
        EmbeddedBroker(tls=TlsFiles(**settings))


def test_broker_without_tls_has_no_certificates() -> None:
    broker = EmbeddedBroker()
    asks: tuple[Callable[[], object], ...] = (
        lambda: broker.ca_certificate,
        lambda: broker.ca_file,
        lambda: broker.client_certificate("alice"),
        broker.change_certificate,
    )
    for ask in asks:
        with pytest.raises(ConfigError, match="does not use TLS"):
            ask()


def test_key_file_permissions() -> None:
    broker = EmbeddedBroker(tls=True)
    certificate = broker.client_certificate("alice")
    _, key = broker.client_certificate_files(certificate)
    assert key.stat().st_mode & 0o077 == 0
    assert key.parent.stat().st_mode & 0o077 == 0
    assert "PRIVATE" not in repr(certificate)
    ssl.create_default_context().load_cert_chain(*broker.client_certificate_files(certificate))
