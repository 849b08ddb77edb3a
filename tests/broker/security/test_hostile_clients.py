"""Random and invalid bytes: the broker continues to serve other clients."""

import random
import socket
import ssl
import struct
from collections.abc import Iterator
from datetime import timedelta

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.security.raw_sasl import handshake, log_in
from tools.support.raw_client import RawClient, batch, produce

SEED = 20_261_122


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 1}, sasl={"alice": "secret"}) as running:
        yield running


@pytest.fixture(scope="module")
def encrypted() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        topics={"t": 1}, tls=True, sasl={"alice": "secret"}, handshake_timeout_ms=3000
    ) as running:
        yield running


def address(kafka: EmbeddedBroker) -> tuple[str, int]:
    host, port = kafka.bootstrap_servers.rsplit(":", 1)
    return host, int(port)


def is_serving(kafka: EmbeddedBroker) -> bool:
    """Check that a client can log in and write."""
    with RawClient(kafka.bootstrap_servers) as client:
        if kafka.config.tls:
            context = ssl.create_default_context(cafile=kafka.ca_file)
            client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        log_in(client)
        served: bool = produce(client, "t", bytes(batch())).error_code == 0
        return served


def send_until_closed(kafka: EmbeddedBroker, data: bytes) -> None:
    """Send bytes and read until the broker closes the connection or a read times out."""
    with socket.create_connection(address(kafka), 10) as client:
        client.settimeout(0.05)
        try:
            client.sendall(data)
            while client.recv(4096):
                pass
        except OSError:
            return


@pytest.mark.parametrize("kind", ["broker", "encrypted"])
def test_random_bytes_do_not_stop_the_broker(kind: str, request: pytest.FixtureRequest) -> None:
    kafka: EmbeddedBroker = request.getfixturevalue(kind)
    noise = random.Random(SEED)
    for _ in range(60):
        send_until_closed(kafka, noise.randbytes(noise.randrange(1, 3000)))
    assert is_serving(kafka)


def test_random_frames_before_login(broker: EmbeddedBroker) -> None:
    noise = random.Random(SEED)
    for api in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS):
        for version in range(4):
            body = noise.randbytes(noise.randrange(200))
            head = struct.pack(">hhih", api, version, 7, -1)
            send_until_closed(broker, struct.pack(">i", len(head + body)) + head + body)
    assert is_serving(broker)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_random_sasl_tokens(broker: EmbeddedBroker, mechanism: str) -> None:
    noise = random.Random(SEED)
    for size in (0, 1, 10, 1000, 400_000):
        with RawClient(broker.bootstrap_servers) as client:
            handshake(client, mechanism)
            response = client.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=noise.randbytes(size))
            assert response.error_code == ErrorCode.sasl_authentication_failed
            assert client.closed()
    assert is_serving(broker)


def test_random_bytes_during_tls_handshake(encrypted: EmbeddedBroker) -> None:
    """A truncated ClientHello of each length, followed by nothing or by random bytes."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cafile=encrypted.ca_file).wrap_bio(
        incoming, outgoing, server_hostname="localhost"
    )
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    noise = random.Random(SEED)
    for length in range(1, len(hello), 40):
        send_until_closed(encrypted, hello[:length] + noise.randbytes(100))
    assert is_serving(encrypted)


def test_random_bytes_after_tls_handshake(encrypted: EmbeddedBroker) -> None:
    context = ssl.create_default_context(cafile=encrypted.ca_file)
    plain = socket.create_connection(address(encrypted), 10)
    with context.wrap_socket(plain, server_hostname="localhost") as client:
        raw = socket.socket(fileno=client.detach())
    with raw:
        raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        raw.settimeout(10)
        while raw.recv(4096):
            pass
    assert is_serving(encrypted)


@pytest.mark.parametrize("kind", ["broker", "encrypted"])
def test_slow_reader_does_not_block_others(kind: str, request: pytest.FixtureRequest) -> None:
    """A client requests 1 MiB a hundred times before it reads."""
    kafka: EmbeddedBroker = request.getfixturevalue(kind)
    with RawClient(kafka.bootstrap_servers) as client:
        if kafka.config.tls:
            context = ssl.create_default_context(cafile=kafka.ca_file)
            client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        log_in(client)
        assert produce(client, "t", bytes(batch(value=bytes(1_000_000)))).error_code == 0
        end = kafka.end_offsets("t")[0]
        partition = {"partition": 0, "fetch_offset": end - 1, "partition_max_bytes": 1 << 21}
        for _ in range(100):
            client.send(
                ApiKey.FETCH,
                4,
                replica_id=-1,
                max_wait=timedelta(0),
                max_bytes=1 << 21,
                topics=[{"topic": "t", "partitions": [partition]}],
            )
        assert is_serving(kafka)
        for _ in range(100):
            assert client.next_frame().count(bytes(1_000_000)) == 1
