"""A client that sends many requests at once does not delay other clients."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.net.event_loop import MAX_REQUESTS_PER_TURN
from spark_kafka_sink.kafka.protocol.messages import build
from spark_kafka_sink.kafka.protocol.versions import ApiKey, request_type
from tests.broker.security.raw_sasl import log_in, plain
from tools.support.frames import request_frame
from tools.support.raw_client import RawClient, batch, produce_values

REQUESTS = 1000
"""Requests with one record each: 200 KiB, which the broker reads at once."""
USERS = {"alice": "secret"}


def frame(api: ApiKey, version: int, values: object) -> bytes:
    return request_frame(build(request_type(api, version), values), 1, "raw")  # type: ignore[arg-type]


LOGIN = frame(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}) + frame(
    ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": plain("alice", "secret")}
)


def write(value: bytes) -> bytes:
    return frame(ApiKey.PRODUCE, 9, produce_values("t", batch(value=value)))


def ask_versions(client: RawClient) -> None:
    client.socket.sendall(frame(ApiKey.API_VERSIONS, 3, {}))
    client.next_frame()


@contextmanager
def blocked_loop(kafka: EmbeddedBroker) -> Iterator[None]:
    """Block the broker's event loop, so that requests accumulate and are then read at once."""
    blocked, released = threading.Event(), threading.Event()

    def block(_: object) -> None:
        blocked.set()
        released.wait(60)

    thread = threading.Thread(target=lambda: kafka.run(block))
    thread.start()
    assert blocked.wait(60)
    try:
        yield
    finally:
        released.set()
        thread.join(60)


@pytest.mark.parametrize("sasl", [None, USERS], ids=["without SASL", "with SASL login"])
def test_other_clients_are_served(sasl: dict[str, str] | None) -> None:
    with EmbeddedBroker(topics={"t": 1}, sasl=sasl) as kafka:
        servers = kafka.bootstrap_servers
        with RawClient(servers) as greedy, RawClient(servers) as modest:
            if sasl:
                log_in(modest)
            else:
                ask_versions(modest)  # wait until the broker has accepted the connection
            with blocked_loop(kafka):
                greedy.socket.sendall((LOGIN if sasl else b"") + write(b"greedy") * REQUESTS)
                modest.socket.sendall(write(b"modest"))
            modest.next_frame()
            for _ in range(REQUESTS + (2 if sasl else 0)):
                greedy.next_frame()
        before = [b"modest" in data for data in kafka.batches("t", 0)].index(True)
    assert before <= MAX_REQUESTS_PER_TURN
