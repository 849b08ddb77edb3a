"""TCP connections without TLS."""

import socket
from select import select

import pytest

from spark_kafka_sink.kafka.client.channel.host_names import resolve
from spark_kafka_sink.kafka.client.channel.transport import RECEIVE_SIZE, TcpTransport
from tests.support.waiting import wait_until


def test_tcp_transport_transfers_bytes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (address, *_) = resolve("127.0.0.1", port)
        transport = TcpTransport(address, 65_536, 65_536)
        peer, _ = server.accept()
        assert transport.finish_connect()
        assert transport.read() is None
        assert transport.write([b"ab", memoryview(b"cd")]) == 4
        assert peer.recv(10) == b"abcd"
        peer.sendall(b"answer")
        assert receive(transport) == b"answer"
        peer.sendall(b"more")
        wait_readable(transport)
        assert transport.read() is None  # a short read means that no more data is available
        assert transport.read() == b"more"
        peer.sendall(bytes(2 * RECEIVE_SIZE))
        received = 0
        while received < 2 * RECEIVE_SIZE:
            data = receive(transport)
            assert data
            received += len(data)
        peer.close()
        assert receive(transport) == b""
        transport.close()


def wait_readable(transport: TcpTransport) -> None:
    assert select([transport], [], [], 10)[0]


def receive(transport: TcpTransport) -> bytes:
    """Return the next received bytes; b"" if the peer has closed the connection."""
    chunks: list[bytes | None] = []

    def has_data() -> bool:
        chunks.append(transport.read())
        return chunks[-1] is not None

    wait_until(has_data)
    return chunks[-1] or b""


def test_refused_tcp_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (address, *_) = resolve("127.0.0.1", port)
    transport = TcpTransport(address, -1, -1)
    with pytest.raises(ConnectionRefusedError):
        receive(transport)
