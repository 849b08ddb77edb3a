"""Listeners and what clients are told of them (advertised.listeners)."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import ConfigError
from tools.support.kafka_node import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def port_forward(target: Callable[[], tuple[str, int]]) -> Iterator[int]:
    """A door in front of the broker, as NAT or a container's port mapping is one."""
    door = socket.create_server(("127.0.0.1", 0))
    sockets = [door]

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
                client, _ = door.accept()
            except OSError:
                return
            inner = socket.create_connection(target())
            sockets.extend((client, inner))
            for pair in ((client, inner), (inner, client)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield door.getsockname()[1]
    finally:
        door.shutdown(socket.SHUT_RDWR)
        for one in sockets:
            one.close()
        thread.join(60)


def test_clients_come_through_a_door_that_only_they_know() -> None:
    inside = free_port()
    with port_forward(lambda: ("127.0.0.1", inside)) as outside:
        told = f"localhost:{outside}"
        with EmbeddedBroker(
            topics={"t": 1}, host="0.0.0.0", port=inside, advertised_listeners=told
        ) as kafka:
            assert kafka.bootstrap_servers == f"127.0.0.1:{inside}"
            listed = AdminClient({"bootstrap.servers": told}).list_topics(timeout=60)
            brokers: list[Any] = list(listed.brokers.values())
            assert [(b.host, b.port) for b in brokers] == [("localhost", outside)]
            producer = Producer({"bootstrap.servers": told})
            producer.produce("t", b"through")
            assert producer.flush(60) == 0
            consumer = Consumer(
                {"bootstrap.servers": told, "group.id": "g", "auto.offset.reset": "earliest"}
            )
            consumer.subscribe(["t"])
            message = consumer.poll(60)
            consumer.close()
            assert message is not None
            assert message.value() == b"through"


def test_a_stopped_node_comes_back_where_it_listened() -> None:
    ports = [free_port(), free_port()]
    told = f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
    with EmbeddedBroker(nodes=2, advertised_listeners=told) as kafka:
        first = kafka.bootstrap_servers.split(",")[0]
        kafka.stop_node(1)
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(_split(first), 5)
        kafka.start_node(1)
        socket.create_connection(_split(first), 5).close()
        assert kafka.bootstrap_servers.split(",")[0] == first
        assert [f"{node.host}:{node.port}" for node in kafka.nodes] == told.split(",")


def _split(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host, int(port)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"host": "0.0.0.0"}, "can't be advertised"),
        ({"host": "::"}, "can't be advertised"),
        ({"advertised_listeners": "kafka"}, "invalid addresses"),
        (
            {"advertised_listeners": "SSL://kafka:9092"},
            "uses SSL, but the broker's protocol is PLAINTEXT",
        ),
        ({"advertised_listeners": "kafka:9092", "nodes": 2}, "1 addresses for 2 nodes"),
        ({"advertised_listeners": ""}, "is empty"),
    ],
)
def test_addresses_that_can_not_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        EmbeddedBroker(**options)
    assert raised.value.hint
