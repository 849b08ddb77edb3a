"""The reuse of clients and producer ids by the next task of a worker process.

A worker process reuses its client and producer id for the next task unless a task fails. So a job
of many small tasks opens its connections once, and each broker stores one producer state instead of
one per task. The client and producer id of a failed task are discarded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.client.client_pool import ClientPool
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.producer_id import ProducerIdentity
from spark_kafka_sink.producer.session import ProducerSession

if TYPE_CHECKING:
    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.producer.session_settings import SessionSettings
    from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings


idle_clients: ClientPool[ProducerClient, ProducerIdentity] = ClientPool()
"""Idle clients of this process, each with the producer id for the next session."""
_clusters_without_client_bumps: set[tuple[str, ...]] = set()
"""Bootstrap servers of clusters that reject epochs which InitProducerId has not returned.

All tasks of the process share it, and only add to it: no lock is needed.
"""


def borrow_session(
    config: ProducerConfig,
    settings: SessionSettings | None = None,
    transaction: TransactionSettings | None = None,
) -> ProducerSession:
    """Return a session on an idle client of this process, or on a new client.

    Close the client if the session cannot be created.
    """
    client, identity = idle_clients.borrow(config) or (ProducerClient(config), ProducerIdentity())
    identity.may_bump_epoch &= config.bootstrap_servers not in _clusters_without_client_bumps
    try:
        return ProducerSession(
            client, identity=identity, settings=settings, transaction=transaction
        )
    except BaseException:
        client.close()
        raise


def give_back_session(session: ProducerSession) -> None:
    """Return a flushed session's client and producer id to the pool, for the next task.

    The producer id of a transaction is not reused, because records written with it later would
    become part of the transaction.
    """
    try:
        session.close()
    except BaseException:
        session.client.close()
        raise
    _record_client_bumps(session)
    identity = session.identity
    idle_clients.keep(
        session.client, identity if identity.transactional_id is None else ProducerIdentity()
    )


def discard_session(session: ProducerSession) -> None:
    """Close a failed session and its client; the producer id must not be reused."""
    _record_client_bumps(session)
    try:
        session.close()
    finally:
        session.client.close()


def _record_client_bumps(session: ProducerSession) -> None:
    if not session.identity.may_bump_epoch:
        _clusters_without_client_bumps.add(session.client.config.bootstrap_servers)
