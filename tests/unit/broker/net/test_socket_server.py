"""Sockets of the event loop."""

import errno
import socket
from contextlib import closing
from typing import Any

from spark_kafka_sink.broker.config.broker_config import BrokerConfig
from spark_kafka_sink.broker.net.socket_server import SocketServer
from spark_kafka_sink.broker.server_security import ServerSecurity


class ResetSocket(socket.socket):
    """A connection that the client has reset before it was accepted, on systems such as macOS."""

    def setsockopt(self, *_: Any) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")


class Listener(socket.socket):
    """Accepts connections that have been reset."""

    def accept(self) -> Any:
        client, address = super().accept()
        return ResetSocket(fileno=client.detach()), address


def test_connection_that_was_reset_before_it_was_accepted() -> None:
    listener = Listener()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server = SocketServer({1: listener}, {}, ServerSecurity(BrokerConfig()))
    try:
        with closing(socket.create_connection(listener.getsockname())) as client:
            assert list(server.poll(5)) == []
            assert server.open_connections == 0
            assert client.recv(1) == b""
    finally:
        server.close_all()
