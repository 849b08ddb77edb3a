"""The brokers that the measured writes go to: a real one, and ones that are too slow."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tools.memory.case import MB, Broker
from tools.support.admin import Admin
from tools.support.jars import ROOT
from tools.support.kafka_cluster import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.memory.case import Case

SLOW_RATE = 60 * MB
"""Bytes a second that a slow broker takes."""
_FAST_RATE = 2_000 * MB
_RUNS_FOR, _STANDS_FOR = 2.0, 4.0
"""Seconds that a stalling broker takes records, and that it stands still."""
TOPIC = "memory"
_KAFKA = {
    "log.segment.delete.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "auto.create.topics.enable": "false",
}
_KEPT = 2_000 * MB
"""Bytes that a topic of a real Kafka holds: what is older goes."""


@contextmanager
def broker_for(case: Case) -> Iterator[tuple[str, str]]:
    """Bootstrap servers and topic for one write."""
    if case.broker is Broker.KAFKA:
        with _kafka(case) as made:
            yield made
        return
    rate = SLOW_RATE if case.broker is Broker.SLOW else _FAST_RATE
    command = [sys.executable, "-m", "tools.support.slow_broker"]
    with subprocess.Popen(
        [*command, str(case.partitions), str(rate)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        over = threading.Event()
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            if case.broker is Broker.STALLING:
                threading.Thread(target=_stall, args=(process, over), daemon=True).start()
            yield f"127.0.0.1:{port}", TOPIC
        finally:
            over.set()
            process.kill()


def _stall(process: subprocess.Popen[str], over: threading.Event) -> None:
    """Let the broker run and stand still in turns."""
    while not over.wait(_RUNS_FOR):
        process.send_signal(signal.SIGSTOP)
        over.wait(_STANDS_FOR)
        process.send_signal(signal.SIGCONT)


@contextmanager
def _kafka(case: Case) -> Iterator[tuple[str, str]]:
    """A real Kafka whose topic keeps the latest segments alone."""
    segment = max(case.row, _KEPT // case.partitions // 4)
    limits = {"retention.bytes": str(_KEPT // case.partitions), "segment.bytes": str(segment)}
    with KafkaCluster(config=_KAFKA, heap_mib=1024, java_options=()) as kafka:
        admin = Admin(kafka.bootstrap_servers)
        name = f"{TOPIC}-{uuid.uuid4().hex[:8]}"
        admin.create_topic(name, case.partitions, configs=limits)
        yield kafka.bootstrap_servers, name
