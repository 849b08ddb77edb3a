"""Messages that a server sends after the handshake (RFC 8446, section 4.6)."""

import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_kafka_sink.kafka.client.broker_connection import BrokerConnection
from spark_kafka_sink.kafka.client.channel import tls_transport
from spark_kafka_sink.kafka.client.channel.tls_transport import READ_LIMIT, TlsTransport
from spark_kafka_sink.kafka.client.channel.transport import State
from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from tests.support.tls_servers import commanded_openssl_server, openssl_server
from tests.unit.kafka.client.channel.tls_server import Contexts, TlsServer, Wire

HOST = "broker.test"
PIECE = 64 * 1024
WAIT_S = 30
TICKETS = 2
"""That OpenSSL's server sends after a handshake of TLS 1.3."""
HEADER = 5
"""Bytes before each record, the last two of which are its length."""
HELLO_REQUEST = b"\x16\x03\x03\x00\x04\x00\x00\x00\x00"


def test_endless_tickets_do_not_block_other_connections(tmp_path: Path) -> None:
    """Thousands of tickets from OpenSSL: a megabyte without application data."""
    contexts = Contexts(tmp_path)
    contexts.server.num_tickets = 5_000
    wire = Wire()
    transport = TlsTransport(wire, contexts.client, HOST)
    server = TlsServer(contexts.server, wire, PIECE)
    while not (transport.finish_connect() and server.is_open):
        server.transfer()
    server.tls.write(b"answer")
    server.flush()
    turns, read = 0, None
    while read is None:
        waiting = len(wire.arriving)
        assert waiting
        read = transport.read()
        turns += 1
        assert waiting - len(wire.arriving) <= READ_LIMIT // PIECE + 1
    assert read == b"answer"
    assert turns >= 4


def test_endless_handshake_does_not_block_other_connections(tmp_path: Path) -> None:
    """A client ignores each HelloRequest during a handshake (RFC 5246, section 7.4.1.1)."""
    wire = Wire()
    transport = TlsTransport(wire, Contexts(tmp_path).client, HOST)
    assert not transport.finish_connect()
    wire.arriving.extend([HELLO_REQUEST * (PIECE // len(HELLO_REQUEST))] * 20)
    for turn in range(1, 4):
        assert not transport.finish_connect()
        assert 20 - len(wire.arriving) <= turn * (READ_LIMIT // PIECE + 1)


class Relay:
    """Relay records one by one between an in-memory wire and a server."""

    def __init__(self, port: int, wire: Wire) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self._wire = wire
        self._records = self._receive()

    def send(self) -> None:
        self._socket.sendall(bytes(self._wire.sent))
        self._wire.sent.clear()

    def next_record(self) -> None:
        self._wire.arriving.append(next(self._records))

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> Iterator[bytes]:
        with self._socket.makefile("rb") as stream:
            while header := stream.read(HEADER):
                yield header + stream.read(int.from_bytes(header[-2:], "big"))


@pytest.fixture
def relayed(tmp_path: Path) -> Iterator[tuple[TlsTransport, Wire, Relay]]:
    """Return a connection to OpenSSL's server, whose tickets take two records each.

    A ticket contains the client's certificate, and records have 512 bytes here.
    """
    contexts, wire = Contexts(tmp_path), Wire()
    contexts.client.load_cert_chain(contexts.client_pem)
    options = ("-tls1_3", "-max_send_frag", "512", "-Verify", "1")
    with openssl_server(contexts.server_pem, *options) as port:
        transport, relay = open_relayed(port, contexts, wire)
        yield transport, wire, relay
        relay.close()


def open_relayed(port: int, contexts: Contexts, wire: Wire) -> tuple[TlsTransport, Relay]:
    """Return a connection after its handshake."""
    relay = Relay(port, wire)
    transport = TlsTransport(wire, contexts.client, HOST)
    while not transport.finish_connect():
        relay.send()
        relay.next_record()
    relay.send()
    return transport, relay


def test_partial_ticket_delays_writes(relayed: tuple[TlsTransport, Wire, Relay]) -> None:
    """OpenSSL encrypts nothing between the records of one message."""
    transport, wire, relay = relayed
    request = [memoryview(b"request")]
    relay.next_record()
    assert transport.read() is None
    assert transport.write(request) == 0
    assert (transport.wants_read, transport.unsent, bytes(wire.sent)) == (True, False, b"")
    relay.next_record()
    assert transport.read() is None
    assert not transport.wants_read
    assert transport.write(request) == len(request[0])


def test_write_interest_only_if_needed(relayed: tuple[TlsTransport, Wire, Relay]) -> None:
    """Otherwise a selector would return immediately again and again."""
    transport, _, relay = relayed
    broker = BrokerConnection(Node(1, HOST, 9092), "client")
    broker.transport = transport
    broker.connection.move(State.CONNECTING)
    relay.next_record()
    assert list(broker.receive(0.0)) == []
    broker.connection.start_handshake(0.0)
    broker.flush()
    assert broker.connection.out
    assert not broker.wants_write
    relay.next_record()
    assert list(broker.receive(0.0)) == []
    assert not broker.connection.out


def next_read(transport: TlsTransport, relay: Relay) -> bytes | None:
    """Return the content of the next record, or None."""
    relay.next_record()
    read = transport.read()
    relay.send()
    return read


@pytest.mark.parametrize("command", ["k", "K"], ids=["new keys", "new keys, asked of both"])
def test_key_update_in_both_directions(tmp_path: Path, command: str) -> None:
    contexts, wire = Contexts(tmp_path), Wire()
    with commanded_openssl_server(contexts.server_pem, "-tls1_3") as (port, say):
        transport, relay = open_relayed(port, contexts, wire)
        for _ in range(TICKETS):
            assert next_read(transport, relay) is None
        for number in range(20):
            say(command)
            assert next_read(transport, relay) is None
            assert transport.write([memoryview(b"request")]) == len(b"request")
            relay.send()
            say(f"answer {number}")
            assert next_read(transport, relay) == b"answer %d\n" % number
        relay.close()


def test_server_that_reads_no_responses_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS 1.2: each HelloRequest is answered with an alert, because renegotiation is disabled."""
    monkeypatch.setattr(tls_transport, "MAX_UNSENT", 300)
    contexts, wire = Contexts(tmp_path), Wire()
    contexts.client.options |= ssl.OP_NO_RENEGOTIATION
    with commanded_openssl_server(contexts.server_pem, "-tls1_2") as (port, say):
        transport, relay = open_relayed(port, contexts, wire)
        wire.room = 0
        for _ in range(10):  # each response has 31 bytes
            say("r")
            assert next_read(transport, relay) is None
        with pytest.raises(ConnectionAbortedError, match="does not read the responses"):
            ask_on(say, transport, relay)
        relay.close()


def ask_on(say: Callable[[str], None], transport: TlsTransport, relay: Relay) -> None:
    for _ in range(5):
        say("r")
        next_read(transport, relay)
