"""TLS over memory buffers: both directions, all chunk sizes, and messages after the handshake."""

import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_kafka_sink.kafka.client.broker_connection import BrokerConnection
from spark_kafka_sink.kafka.client.channel import tls_transport
from spark_kafka_sink.kafka.client.channel.channel_state import ChannelState
from spark_kafka_sink.kafka.client.channel.tls_transport import (
    READ_LIMIT,
    RECORD,
    WINDOW,
    TlsTransport,
)
from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from tests.support.tls_servers import commanded_openssl_server, openssl_server
from tests.unit.kafka.client.channel.tls_server import Contexts, TlsServer, Wire

HOST = "broker.test"
EVERYTHING = 1 << 20

PIECE = 64 * 1024
WAIT_S = 30
TICKETS = 2
"""That OpenSSL's server sends after a handshake of TLS 1.3."""
HEADER = 5
"""Bytes before each record, the last two of which are its length."""
HELLO_REQUEST = b"\x16\x03\x03\x00\x04\x00\x00\x00\x00"


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    return Contexts(tmp_path_factory.mktemp("tls"))


def connect(contexts: Contexts, step: int = EVERYTHING) -> tuple[TlsTransport, TlsServer, Wire]:
    """Return a connection after its handshake."""
    wire = Wire()
    transport, server = (
        TlsTransport(wire, contexts.client, HOST),
        TlsServer(contexts.server, wire, step),
    )
    while not (transport.finish_connect() and server.is_open):
        server.transfer()
    while wire.arriving:
        assert transport.read() is None  # session tickets
    return transport, server, wire


def write_all(transport: TlsTransport, buffers: list[memoryview]) -> int:
    """Write like a connection: offer uncounted bytes again; return the number of calls."""
    left, calls = list(buffers), 0
    while left:
        count, calls = transport.write(left), calls + 1
        assert count
        while count:
            first = left.pop(0)
            if first.nbytes > count:
                left.insert(0, first[count:])
            count -= min(count, first.nbytes)
    return calls


@pytest.mark.parametrize("step", [1, 7, EVERYTHING])
def test_data_in_both_directions_in_any_chunks(contexts: Contexts, step: int) -> None:
    transport, server, _ = connect(contexts, step)
    write_all(transport, [memoryview(b"request")])
    server.transfer()
    assert server.received == b"request"
    server.tls.write(b"answer")
    server.flush()
    assert transport.read() == b"answer"
    assert transport.read() is None
    assert transport.cipher.startswith("TLSv1.3 TLS_")


def test_handshake_waits_for_the_required_direction(contexts: Contexts) -> None:
    wire = Wire()
    wire.room = 100
    transport, server = (
        TlsTransport(wire, contexts.client, HOST),
        TlsServer(contexts.server, wire),
    )
    assert not transport.finish_connect()
    assert transport.unsent  # the ClientHello exceeds the socket's room
    wire.room = None
    assert transport.write([]) == 0
    assert not transport.unsent
    # Nothing to send: the server must respond.
    assert not transport.finish_connect()  # type: ignore[unreachable]
    assert not transport.unsent
    server.transfer()
    assert transport.finish_connect()


def test_buffered_plaintext_is_read_without_the_socket(contexts: Contexts) -> None:
    """A selector does not see bytes buffered by OpenSSL."""
    transport, server, wire = connect(contexts)
    for part in (b"a" * RECORD, b"b" * RECORD, b"c"):
        server.tls.write(part)
    server.flush()
    assert len(wire.arriving) == 1
    chunks = [transport.read() for _ in range(4)]
    assert chunks == [b"a" * RECORD, b"b" * RECORD, b"c", None]


def test_small_buffers_are_joined_and_records_are_full(contexts: Contexts) -> None:
    transport, server, _wire = connect(contexts)
    parts = [bytes([number % 256]) * 700 for number in range(100)]
    parts += [b"x" * (3 * RECORD + 5), b"y" * 11, b"z" * (RECORD - 1)]
    write_all(transport, [memoryview(part) for part in parts])
    server.transfer()
    whole = b"".join(parts)
    assert server.received == whole
    assert server.records == [RECORD] * (len(whole) // RECORD) + [len(whole) % RECORD]


def test_each_window_is_one_write_to_the_socket(contexts: Contexts) -> None:
    transport, server, wire = connect(contexts)
    before = wire.writes
    buffers = [memoryview(b"k" * 61), memoryview(bytes(3 * WINDOW))]
    assert transport.write(buffers) == 3 * WINDOW + 61
    assert wire.writes - before == 3
    server.transfer()
    assert len(server.received) == 3 * WINDOW + 61


def test_no_more_is_encrypted_than_the_socket_accepts(contexts: Contexts) -> None:
    transport, _, wire = connect(contexts)
    wire.room = 3 * WINDOW
    counted = transport.write([memoryview(bytes(100 * WINDOW))])
    assert 2 * WINDOW <= counted < 3 * WINDOW
    wire.room = None
    assert WINDOW <= transport.write([memoryview(bytes(100 * WINDOW - counted))]) <= 3 * WINDOW


@pytest.mark.parametrize("room", [1, 1_000, RECORD + 22, 3 * RECORD])
def test_bytes_count_after_their_records_are_sent(contexts: Contexts, room: int) -> None:
    """No bytes are encrypted twice, although they are offered again."""
    transport, server, wire = connect(contexts)
    buffers = [memoryview(b"h" * 100), memoryview(b"v" * (2 * RECORD)), memoryview(b"t" * 50)]
    expected, counted = b"".join(buffers), 0
    while counted < len(expected):
        wire.room = room
        rest, skip = [], counted
        for buffer in buffers:
            rest.append(memoryview(bytes(buffer[skip:])))  # at another address in memory
            skip = max(0, skip - buffer.nbytes)
        counted += transport.write(rest)
        server.transfer()
        assert counted <= len(server.received)
        if counted < len(expected):
            assert transport.unsent or len(server.received) == counted
    assert server.received == expected


@pytest.mark.parametrize("windows", [1, 2])
def test_bytes_sent_before_an_error_are_counted(contexts: Contexts, windows: int) -> None:
    """The next call, and each later one, raises the error."""
    transport, server, wire = connect(contexts)
    wire.room = windows * (WINDOW + WINDOW // RECORD * 22)
    wire.error = ConnectionResetError("reset")
    buffers = [memoryview(bytes(WINDOW)), memoryview(bytes(5 * WINDOW))]
    assert transport.write(buffers) == windows * WINDOW
    assert transport.unsent
    server.transfer()
    assert len(server.received) == windows * WINDOW
    wire.error = BrokenPipeError("what a socket says from then on")
    for _ in range(2):
        with pytest.raises(ConnectionResetError, match="reset"):
            transport.write([memoryview(bytes(6 * WINDOW))[windows * WINDOW :]])


def test_error_before_any_sent_byte_is_raised_immediately(contexts: Contexts) -> None:
    transport, _, wire = connect(contexts)
    wire.room, wire.error = RECORD, ConnectionResetError("reset")
    with pytest.raises(ConnectionResetError):
        transport.write([memoryview(bytes(5 * WINDOW))])


def test_reading_and_closing_send_no_uncounted_bytes(contexts: Contexts) -> None:
    transport, server, wire = connect(contexts)
    wire.room = 10
    assert transport.write([memoryview(b"a request")]) == 0
    wire.room = None
    assert transport.read() is None
    transport.close()
    server.transfer()
    assert server.received == b""
    assert wire.is_closed


def test_close_notify_ends_the_stream_and_is_returned(contexts: Contexts) -> None:
    transport, server, wire = connect(contexts)
    server.tls.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        server.tls.unwrap()
    server.flush()
    assert [transport.read(), transport.read()] == [b"last", b""]
    transport.close()
    assert wire.sent
    server.transfer()
    assert wire.is_closed


@pytest.mark.parametrize("during", ["handshake", "stream"])
def test_connection_without_close_notify(contexts: Contexts, during: str) -> None:
    wire = Wire()
    transport, server = TlsTransport(wire, contexts.client, HOST), TlsServer(contexts.server, wire)
    if during == "stream":
        while not (transport.finish_connect() and server.is_open):
            server.transfer()
    wire.arriving.append(b"")
    if during == "stream":
        assert transport.read() == b""
    else:
        with pytest.raises(ConnectionResetError, match="handshake"):
            transport.finish_connect()


def test_rejected_certificate_is_reported_to_the_server(contexts: Contexts) -> None:
    wire = Wire()
    transport = TlsTransport(wire, contexts.client, "other.test")
    server = TlsServer(contexts.server, wire)
    assert not transport.finish_connect()
    server.transfer()
    with pytest.raises(ssl.SSLCertVerificationError, match=r"other\.test"):
        transport.finish_connect()
    with pytest.raises(ssl.SSLError, match=r"(?i)alert bad certificate"):
        server.transfer()


def test_server_rejects_the_client_after_its_handshake(contexts: Contexts) -> None:
    """TLS 1.3: certificate_required arrives after the client has sent its first request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(contexts.server_pem)
    context.verify_mode = ssl.CERT_REQUIRED
    wire = Wire()
    transport, server = TlsTransport(wire, contexts.client, HOST), TlsServer(context, wire)
    assert not transport.finish_connect()
    server.transfer()
    assert transport.finish_connect()
    assert transport.write([memoryview(b"ApiVersions")]) == 11
    with pytest.raises(ssl.SSLError) as refused:
        server.transfer()
    assert refused.value.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    with pytest.raises(ssl.SSLError) as caught:
        transport.read()
    assert caught.value.reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED"


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(64)])
def test_server_without_tls(contexts: Contexts, garbage: bytes) -> None:
    wire = Wire()
    transport = TlsTransport(wire, contexts.client, HOST)
    assert not transport.finish_connect()
    wire.arriving.append(garbage)
    with pytest.raises(ssl.SSLError):
        transport.finish_connect()


@pytest.mark.parametrize("host", ["", ".broker", "x" * 64 + ".test"])
def test_invalid_host_name(contexts: Contexts, host: str) -> None:
    with pytest.raises(OSError, match="not a valid host name"):
        TlsTransport(Wire(), contexts.client, host)


@pytest.mark.parametrize(
    ("host", "named"), [("[::1]", "::1"), ("broker.test.", "broker.test"), ("10.0.0.1", "10.0.0.1")]
)
def test_host_name_formats(tmp_path: Path, host: str, named: str) -> None:
    contexts = Contexts(tmp_path, named)
    wire = Wire()
    transport, server = TlsTransport(wire, contexts.client, host), TlsServer(contexts.server, wire)
    while not (transport.finish_connect() and server.is_open):
        server.transfer()
    assert transport.cipher


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
    broker.protocol.change_state(ChannelState.CONNECTING)
    relay.next_record()
    assert list(broker.receive(0.0)) == []
    broker.protocol.start_handshake(0.0)
    broker.flush()
    assert broker.protocol.send_queue
    assert not broker.wants_write
    relay.next_record()
    assert list(broker.receive(0.0)) == []
    assert not broker.protocol.send_queue


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
