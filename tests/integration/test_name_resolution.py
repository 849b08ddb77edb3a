"""Slow name resolution."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.producer_writes import rows, session
from tests.support.waiting import wait_until
from tools.support.admin import Admin

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class BlockedLookups:
    """Lookups that wait until the test releases them; `hosts` lists the requested names."""

    started: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    hosts: list[str] = field(default_factory=list)


@contextmanager
def blocked_lookups(monkeypatch: pytest.MonkeyPatch, held: int) -> Iterator[BlockedLookups]:
    """Block lookups of names with this port until the test releases them."""
    real, lookups = socket.getaddrinfo, BlockedLookups()

    def lookup(host: bytes, port: int, *rest: Any, **named: Any) -> Any:
        if port == held and not named.get("flags"):
            lookups.hosts.append(host.decode())
            lookups.started.set()
            lookups.released.wait(TIMEOUT_S)
        return real(host, port, *rest, **named)

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", lookup)
        try:
            yield lookups
        finally:
            lookups.released.set()


def persisted(producer: ProducerSession) -> dict[int, int]:
    parts = producer.report(TaskAttempt()).partitions
    return {part.partition: part.persisted for part in parts}


def has_persisted(producer: ProducerSession, partition: int, count: int) -> bool:
    return persisted(producer).get(partition, 0) == count


def test_slow_lookup_blocks_only_one_broker(
    monkeypatch: pytest.MonkeyPatch, unique_topic: str
) -> None:
    with EmbeddedBroker(nodes=2, host="localhost") as broker:
        admin = Admin(broker.bootstrap_servers)
        admin.create_topic(unique_topic, 2)
        first, second = broker.nodes
        (near,) = [p for p, leader in admin.leaders(unique_topic).items() if leader == first.id]
        with (
            blocked_lookups(monkeypatch, second.port) as lookups,
            session(f"localhost:{first.port}", linger_ms=0) as producer,
        ):
            producer.append(rows(unique_topic, [b"x"] * 2, partitions=[near, 1 - near]))
            assert lookups.started.wait(TIMEOUT_S)
            for sent in range(2, 20):
                producer.append(rows(unique_topic, [b"x"], partitions=[near]))
                wait_until(partial(has_persisted, producer, near, sent))
            assert not lookups.released.is_set()
            assert persisted(producer).get(1 - near, 0) == 0
            lookups.released.set()
            producer.flush()
            assert persisted(producer)[1 - near] == 1
        assert lookups.hosts == ["localhost"]
