"""Listeners and advertised.listeners."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import ConfigError
from tools.support.kafka_node import free_port


@contextmanager
def port_forward(target: Callable[[], tuple[str, int]]) -> Iterator[int]:
    """Forward a port to the broker, like NAT or the port mapping of a container."""
    listener = socket.create_server(("127.0.0.1", 0))
    sockets = [listener]

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            upstream = socket.create_connection(target())
            sockets.extend((client, upstream))
            for pair in ((client, upstream), (upstream, client)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        for opened in sockets:
            opened.close()
        thread.join(60)


def test_clients_connect_through_advertised_listener() -> None:
    broker_port = free_port()
    with port_forward(lambda: ("127.0.0.1", broker_port)) as forwarded_port:
        advertised = f"localhost:{forwarded_port}"
        with EmbeddedBroker(
            topics={"t": 1}, host="0.0.0.0", port=broker_port, advertised_listeners=advertised
        ) as kafka:
            assert kafka.bootstrap_servers == f"127.0.0.1:{broker_port}"
            listed = AdminClient({"bootstrap.servers": advertised}).list_topics(timeout=60)
            brokers: list[Any] = list(listed.brokers.values())
            assert [(b.host, b.port) for b in brokers] == [("localhost", forwarded_port)]
            producer = Producer({"bootstrap.servers": advertised})
            producer.produce("t", b"forwarded")
            assert producer.flush(60) == 0
            consumer = Consumer(
                {"bootstrap.servers": advertised, "group.id": "g", "auto.offset.reset": "earliest"}
            )
            consumer.subscribe(["t"])
            message = consumer.poll(60)
            consumer.close()
            assert message is not None
            assert message.value() == b"forwarded"


def test_restarted_node_keeps_its_port() -> None:
    ports = [free_port(), free_port()]
    advertised = f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
    with EmbeddedBroker(nodes=2, advertised_listeners=advertised) as kafka:
        first = kafka.bootstrap_servers.split(",")[0]
        kafka.stop_node(1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(split(first), 5)
        kafka.start_node(1)
        socket.create_connection(split(first), 5).close()
        assert kafka.bootstrap_servers.split(",")[0] == first
        assert [f"{node.host}:{node.port}" for node in kafka.nodes] == advertised.split(",")


def split(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host, int(port)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "0.0.0.0"}, "cannot be advertised"),
        ({"host": "::"}, "cannot be advertised"),
        ({"advertised_listeners": "kafka"}, "invalid addresses"),
        (
            {"advertised_listeners": "SSL://kafka:9092"},
            "uses SSL, but the broker's protocol is PLAINTEXT",
        ),
        ({"advertised_listeners": "kafka:9092", "nodes": 2}, "1 addresses for 2 nodes"),
        ({"advertised_listeners": ""}, "is empty"),
    ],
)
def test_invalid_addresses_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        EmbeddedBroker(**options)
    assert raised.value.hint
