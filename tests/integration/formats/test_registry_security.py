"""Authentication and TLS of a registry: OAuth, certificates of both sides, and errors."""

import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from spark_kafka_sink import EmbeddedBroker, KafkaProdError
from spark_kafka_sink.broker.security.oauthbearer import BearerToken
from tests.integration.support.columnar import write_rows
from tests.support.schema_registry import running
from tests.support.security.issuer import Issuer
from tests.support.servers import closed_port
from tools.support.certificates import EXPIRED, CertificateAuthority

SECRETS = ("secret-of-client", "password-of-key", "password-of-store")
SCHEMA = StructType([StructField("id", LongType())])
QUICK = {"retries.wait.ms": "1", "retries.max.wait.ms": "2", "max.retries": "1"}
CLIENT = {
    "bearer.auth.credentials.source": "OAUTHBEARER",
    "bearer.auth.client.id": "sink",
    "bearer.auth.client.secret": SECRETS[0],
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(auto_create_topics=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority()


def write(broker: EmbeddedBroker, url: str, topic: str, **options: str) -> None:
    options = {"value.format": "avro-confluent", "schema.registry.url": url, **QUICK, **options}
    write_rows(broker, SCHEMA, [{"id": 7}], topic=topic, **options)


def write_error(broker: EmbeddedBroker, url: str, **options: str) -> str:
    """Return message and hint of a failed write; check that they contain no secret."""
    with pytest.raises(KafkaProdError) as caught:
        write(broker, url, "refused", **options)
    text = f"{caught.value} {caught.value.hint}"
    assert not [secret for secret in SECRETS if secret in text]
    return text


def test_oauth_tokens(broker: EmbeddedBroker, unique_topic: str) -> None:
    more = {
        "bearer.auth.scope": "kafka",
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }
    with Issuer({"sink": SECRETS[0]}) as issuer, running() as registry:
        url = {"bearer.auth.issuer.endpoint.url": issuer.token_url}
        write(broker, registry.url, unique_topic, **CLIENT, **url, **more)
        assert issuer.token_requests.tokens == ["sink"]
        scheme, token = registry.headers[0]["Authorization"].split()
        claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        assert (scheme, claims["sub"]) == ("Bearer", "sink")
        names = {name.lower(): value for name, value in registry.headers[0].items()}
        assert names["target-sr-cluster"] == "lsrc-1"
        assert names["confluent-identity-pool-id"] == "pool-1"
    assert len(broker.records(unique_topic)) == 1


def test_inherited_issuer(unique_topic: str) -> None:
    tokens: list[str] = []

    def validate(token: str) -> BearerToken:
        tokens.append(token)
        return BearerToken(principal="sink", expires_at_ms=2**53)

    inherit = {"bearer.auth.credentials.source": "SASL_OAUTHBEARER_INHERIT"}
    with (
        Issuer({"sink": SECRETS[0]}) as issuer,
        running() as registry,
        EmbeddedBroker(
            topics={unique_topic: 1},
            sasl_mechanisms=("OAUTHBEARER",),
            oauthbearer_validator=validate,
        ) as broker,
    ):
        login = {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.token.endpoint.url": issuer.token_url,
            "kafka.sasl.oauthbearer.client.id": "sink",
            "kafka.sasl.oauthbearer.client.secret": SECRETS[0],
        }
        write(broker, registry.url, unique_topic, **inherit, **login)
        scheme, token = registry.headers[0]["Authorization"].split()
        assert (scheme, token.count(".")) == ("Bearer", 2)
        assert set(issuer.token_requests.tokens) == {"sink"}
        assert tokens
        assert len(broker.records(unique_topic)) == 1
        assert "has no OAuth issuer" in write_error(broker, registry.url, **inherit)


def test_issuer_rejects_the_client(broker: EmbeddedBroker) -> None:
    with Issuer({"sink": "other"}) as issuer, running() as registry:
        url = {"bearer.auth.issuer.endpoint.url": issuer.token_url}
        assert "invalid_client" in write_error(broker, registry.url, **CLIENT, **url)
        assert registry.requests == []


def test_unreachable_issuer(broker: EmbeddedBroker) -> None:
    url = {"bearer.auth.issuer.endpoint.url": f"http://{closed_port()}/token"}
    with running() as registry:
        assert "/token" in write_error(broker, registry.url, **CLIENT, **url)


def server_context(
    authority: CertificateAuthority, folder: Path, host: str = "localhost", **more: Any
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server(host, **more).write(folder))
    return context


def trust_options(authority: CertificateAuthority, folder: Path) -> dict[str, str]:
    return {
        "schema.registry.ssl.truststore.type": "PEM",
        "schema.registry.ssl.truststore.location": str(authority.write(folder)),
    }


def test_trusted_certificate(
    broker: EmbeddedBroker, authority: CertificateAuthority, tmp_path: Path, unique_topic: str
) -> None:
    with running(server_context(authority, tmp_path)) as registry:
        write(broker, registry.url, unique_topic, **trust_options(authority, tmp_path))
    assert len(broker.records(unique_topic)) == 1


def test_rejected_certificates(
    broker: EmbeddedBroker, authority: CertificateAuthority, tmp_path: Path
) -> None:
    with running(server_context(authority, tmp_path)) as registry:
        assert "certificate" in write_error(broker, registry.url)
        other = trust_options(CertificateAuthority("Other"), tmp_path)
        assert "certificate" in write_error(broker, registry.url, **other)
    with running(server_context(authority, tmp_path, "elsewhere")) as registry:
        text = write_error(broker, registry.url, **trust_options(authority, tmp_path))
        assert "localhost" in text
    with running(server_context(authority, tmp_path, validity=EXPIRED)) as registry:
        assert "expired" in write_error(broker, registry.url, **trust_options(authority, tmp_path))


def test_port_without_tls(
    broker: EmbeddedBroker, authority: CertificateAuthority, tmp_path: Path
) -> None:
    with running() as registry:
        url = registry.url.replace("http:", "https:")
        assert "SSL" in write_error(broker, url, **trust_options(authority, tmp_path))


@pytest.mark.parametrize("password", [None, SECRETS[1]])
def test_client_certificate(
    broker: EmbeddedBroker,
    authority: CertificateAuthority,
    tmp_path: Path,
    unique_topic: str,
    password: str | None,
) -> None:
    context = server_context(authority, tmp_path)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.write(tmp_path))
    key = authority.client("sink").write(tmp_path, "client", password)
    store = {
        "schema.registry.ssl.keystore.type": "PEM",
        "schema.registry.ssl.keystore.location": str(key),
    }
    if password is not None:
        store["schema.registry.ssl.key.password"] = password
    with running(context) as registry:
        trusted = trust_options(authority, tmp_path)
        assert "cannot be reached" in write_error(broker, registry.url, **trusted)
        write(broker, registry.url, unique_topic, **trusted, **store)
        if password is not None:
            wrong = {**store, "schema.registry.ssl.key.password": SECRETS[2]}
            assert "password" in write_error(broker, registry.url, **trusted, **wrong)
    assert len(broker.records(unique_topic)) == 1


@pytest.mark.parametrize("status", [500, 503, 429])
def test_failing_registry_is_reported_after_retries(broker: EmbeddedBroker, status: int) -> None:
    with running() as registry:
        registry.faults.extend([(status, {"error_code": 50001, "message": "no leader"})] * 2)
        text = write_error(broker, registry.url)
        assert f"HTTP status {status}, code 50001: no leader" in text
        assert len(registry.requests) == 2
