"""Sessions across tasks: a worker process keeps its client and producer id while they are healthy.

So a job of many small tasks opens its connections once, and leaves one producer state on each
broker instead of one per task. What a failed task used is dropped whole. A connection belongs to
who has logged in: it is used again only for equal settings, secrets included, and only while what
they refer to has not changed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spark_kafka_sink.client.client import Client
from spark_kafka_sink.producer.producer_state import ProducerState
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.security.credentials_stamp import credentials_stamp

if TYPE_CHECKING:
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.producer.session_settings import SessionSettings
    from spark_kafka_sink.producer.transactions.settings import TransactionSettings

MAX_KEPT = 4
"""Clients that a process keeps: one per configuration, the one unused longest goes first."""

_cache: dict[tuple[int, ProducerConfig], tuple[Client, ProducerState]] = {}
"""The healthy client and producer id that the last task left, by process and configuration."""


def borrow_session(
    config: ProducerConfig,
    settings: SessionSettings | None = None,
    transaction: TransactionSettings | None = None,
) -> ProducerSession:
    """A session on the client that the last task of this process left, or on a new one.

    A transaction has an identity of its own.
    """
    kept = _cache.pop((os.getpid(), config), None)
    if kept and not _is_usable(kept[0]):
        kept[0].close()
        kept = None
    client, producer_state = kept or (Client(config), ProducerState())
    if transaction is not None:
        producer_state = ProducerState(transactional_id=transaction.transactional_id)
    return ProducerSession(client, producer_state, settings, transaction=transaction)


def give_back_session(session: ProducerSession) -> None:
    """Keep a flushed session's client and producer id for the next task.

    A transaction's producer id is its own: what is written under it later would join it.
    """
    session.close()
    state = session.producer_state
    if state.transactional_id is not None:
        state = ProducerState()
    _cache[os.getpid(), session.client.config] = (session.client, state)
    while len(_cache) > MAX_KEPT:
        client, _ = _cache.pop(next(iter(_cache)))
        client.close()


def _is_usable(client: Client) -> bool:
    """Whether the client runs, and its connections are those that would be made now."""
    return not client.gone and client.credentials == credentials_stamp(client.config.security)


def discard_session(session: ProducerSession) -> None:
    """Drop a failed session whole: its producer id must not be used again."""
    session.close()
    session.client.close()
