"""A name server that takes its time for one broker's name: the other brokers keep taking data."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.base.report import TaskInfo
from spark_kafka_sink.broker import EmbeddedBroker
from tests.integration.producing import rows, session
from tests.kafka.admin import Admin

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from spark_kafka_sink.producer.session import ProducerSession

SLOW_S = 3.0


@contextmanager
def slow_port(monkeypatch: pytest.MonkeyPatch, slow: int) -> Iterator[list[str]]:
    """Names with this port take long to look up; yields those that were."""
    real, asked = socket.getaddrinfo, list[str]()

    def look_up(host: str, port: int, *rest: Any, **named: Any) -> Any:
        if port == slow and not named.get("flags"):
            asked.append(host)
            time.sleep(SLOW_S)
        return real(host, port, *rest, **named)

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", look_up)
        yield asked


def persisted(producer: ProducerSession) -> dict[int, int]:
    parts = producer.report(TaskInfo()).partitions
    return {part.partition: part.persisted for part in parts}


def test_a_slow_name_stalls_one_broker_alone(
    monkeypatch: pytest.MonkeyPatch, unique_topic: str
) -> None:
    with EmbeddedBroker(nodes=2, host="localhost") as broker:
        admin = Admin(broker.bootstrap_servers)
        admin.create_topic(unique_topic, 2)
        first, second = broker.nodes
        (near,) = [p for p, leader in admin.leaders(unique_topic).items() if leader == first.id]
        with (
            slow_port(monkeypatch, second.port) as asked,
            session(f"localhost:{first.port}", linger_ms=0) as producer,
        ):
            producer.append(rows(unique_topic, [b"x"] * 2, partitions=[near, 1 - near]))
            begun, waits = time.monotonic(), []
            while time.monotonic() < begun + SLOW_S - 0.5:
                sent, before = time.monotonic(), persisted(producer).get(near, 0)
                producer.append(rows(unique_topic, [b"x"], partitions=[near]))
                while persisted(producer).get(near, 0) == before:
                    time.sleep(0.005)
                waits.append(time.monotonic() - sent)
            assert persisted(producer).get(1 - near, 0) == 0
            producer.flush()
            assert persisted(producer)[1 - near] == 1
        assert asked == ["localhost"]
        assert max(waits) < SLOW_S / 3
