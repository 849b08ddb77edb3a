"""Sessions across tasks: a worker process keeps its client and producer id while they are healthy.

So a job of many small tasks opens its connections once, and leaves one producer state on each
broker instead of one per task. What a failed task used is dropped whole.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spark_kafka_sink.client.client import Client
from spark_kafka_sink.producer.producer_state import ProducerState
from spark_kafka_sink.producer.session import ProducerSession

if TYPE_CHECKING:
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.producer.session_settings import SessionSettings

MAX_KEPT = 4
"""Clients that a process keeps: one per configuration, the one unused longest goes first."""

_cache: dict[tuple[int, str], tuple[Client, ProducerState]] = {}
"""The healthy client and producer id that the last task left, by process and configuration."""


def borrow_session(
    config: ProducerConfig, settings: SessionSettings | None = None
) -> ProducerSession:
    """A session on the client that the last task of this process left, or on a new one."""
    kept = _cache.pop((os.getpid(), config.fingerprint()), None)
    if kept and kept[0].gone:
        kept[0].close()
        kept = None
    client, producer_state = kept or (Client(config), ProducerState())
    return ProducerSession(client, producer_state, settings)


def give_back_session(session: ProducerSession) -> None:
    """Keep a flushed session's client and producer id for the next task."""
    session.close()
    key = (os.getpid(), session.client.config.fingerprint())
    _cache[key] = (session.client, session.producer_state)
    while len(_cache) > MAX_KEPT:
        client, _ = _cache.pop(next(iter(_cache)))
        client.close()


def discard_session(session: ProducerSession) -> None:
    """Drop a failed session whole: its producer id must not be used again."""
    session.close()
    session.client.close()
