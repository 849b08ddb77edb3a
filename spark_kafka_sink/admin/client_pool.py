"""Clients across calls: a process keeps those that are healthy, one for each configuration.

Spark's planning and commit processes live as long as a query, and run once in every micro-batch.
Only connections and what was learned of the cluster are kept. A connection belongs to who has
logged in, as in `producer.session_pool`.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from spark_kafka_sink.admin.blocking_client import BlockingClient
from spark_kafka_sink.security.credentials_stamp import credentials_stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.config.model import ProducerConfig

MAX_KEPT = 4
"""Clients that a process keeps: the one unused longest goes first."""

_lock = Lock()
"""Guards `_cache`: a process may serve several queries, each in a thread of its own."""
_cache: dict[tuple[int, ProducerConfig], BlockingClient] = {}
"""Clients that nobody uses now, by process and configuration."""


@contextmanager
def borrowed_client(config: ProducerConfig) -> Iterator[BlockingClient]:
    """A client that an earlier call of this process left, or a new one.

    One that an error has passed through is closed.
    """
    client = _take(config) or BlockingClient(config)
    try:
        yield client
    except BaseException:
        client.close()
        raise
    _keep(client)


def close_clients() -> None:
    """Close those that nobody uses now."""
    with _lock:
        unused = list(_cache.values())
        _cache.clear()
    for client in unused:
        client.close()


def _take(config: ProducerConfig) -> BlockingClient | None:
    with _lock:
        client = _cache.pop((os.getpid(), config), None)
    if client is not None and client.credentials != credentials_stamp(config.security):
        client.close()
        return None
    return client


def _keep(client: BlockingClient) -> None:
    if not client.is_quiet or client.failures.fatal is not None:
        client.close()
        return
    client.forget_topics()
    key = (os.getpid(), client.config)
    with _lock:
        unwanted = [_cache.pop(key)] if key in _cache else []
        _cache[key] = client
        unwanted += [_cache.pop(next(iter(_cache))) for _ in range(len(_cache) - MAX_KEPT)]
    for other in unwanted:
        other.close()
