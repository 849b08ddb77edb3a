"""Write in a transaction without Spark, and end it from outside."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from spark_kafka_sink.kafka.protocol.error_codes import COORDINATOR_UNAVAILABLE
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.producer.session_pool import discard_session
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
from tests.support.producer_writes import config
from tests.support.waiting import retry
from tools.support.raw_client import RawClient

TIMEOUT_S = 60.0


def settings(timeout_ms: int = 60_000, *, two_phase: bool = False) -> TransactionSettings:
    """Return settings with a unique transactional id."""
    name = f"test-{uuid.uuid4().hex[:16]}-0-0"
    return TransactionSettings(transactional_id=name, timeout_ms=timeout_ms, two_phase=two_phase)


@contextmanager
def transaction(
    bootstrap_servers: str,
    transaction: TransactionSettings | None = None,
    sink: SessionSettings | None = None,
    **options: Any,
) -> Iterator[ProducerSession]:
    """Open a session with its own client that writes in a transaction and leaves it open."""
    transaction_settings = transaction or settings()
    producer = ProducerSession(
        ProducerClient(config(bootstrap_servers, options)),
        settings=sink,
        transaction=transaction_settings,
    )
    try:
        yield producer
    finally:
        discard_session(producer)


def end(
    bootstrap_servers: str, opened: TransactionalProducer | None, *, commit: bool = True
) -> None:
    """Commit or abort a transaction; retry until it succeeds."""
    assert opened is not None
    end_txn = partial(_end_txn, bootstrap_servers, opened, commit=commit)
    assert retry(end_txn, int, COORDINATOR_UNAVAILABLE) == 0


def find_coordinator(bootstrap_servers: str, transactional_id: str) -> Any:
    """Return the response of the first bootstrap server: error code, node ID, host and port."""
    with RawClient(bootstrap_servers) as any_broker:
        requested = {"key": transactional_id, "key_type": 1}
        return any_broker.call(ApiKey.FIND_COORDINATOR, 2, **requested)


def _end_txn(bootstrap_servers: str, opened: TransactionalProducer, *, commit: bool) -> int:
    coordinator_answer = find_coordinator(bootstrap_servers, opened.transactional_id)
    if coordinator_answer.error_code:
        return int(coordinator_answer.error_code)
    version = 5 if opened.version is TransactionVersion.V2 else 1
    with RawClient(f"{coordinator_answer.host}:{coordinator_answer.port}") as coordinator:
        response = coordinator.call(
            ApiKey.END_TXN,
            version,
            transactional_id=opened.transactional_id,
            producer_id=opened.producer_id,
            producer_epoch=opened.epoch,
            committed=commit,
        )
    return int(response.error_code)
