"""Clients after a transaction, and late responses."""

import pytest

from spark_kafka_sink.common.errors import ConfigError, DeliveryError
from spark_kafka_sink.producer.session_pool import (
    borrow_session,
    discard_session,
    give_back_session,
)
from spark_kafka_sink.producer.transactions.state import TransactionSettings
from tests.support.harness.offline import config

FIRST = TransactionSettings(transactional_id="p-1-aa-0-0", timeout_ms=1_000)
SECOND = TransactionSettings(transactional_id="p-2-bb-0-0", timeout_ms=1_000)


def test_transactional_identity_is_never_reused() -> None:
    producer = config(client_id="transactions-pool")
    first = borrow_session(producer, transaction=FIRST)
    assert first.producer_state.transactional_id == FIRST.transactional_id
    give_back_session(first)
    second = borrow_session(producer, transaction=SECOND)
    assert second.client is first.client
    assert second.producer_state.transactional_id == SECOND.transactional_id
    give_back_session(second)
    third = borrow_session(producer)
    assert third.client is first.client
    assert third.producer_state.transactional_id is None
    assert third.context.transactions is None
    assert third.transaction is None
    discard_session(third)


def test_transaction_requires_idempotence() -> None:
    producer = config(client_id="plain", enable_idempotence="false")
    with pytest.raises(ConfigError, match="idempotent"):
        borrow_session(producer, transaction=FIRST)


def test_session_without_transaction_has_nothing_to_abort() -> None:
    session = borrow_session(config(client_id="no-transaction"))
    assert session.abort_transaction(1.0)
    session.flush()
    discard_session(session)


def test_unused_session_is_aborted_immediately() -> None:
    session = borrow_session(config(client_id="aborted"), transaction=FIRST)
    assert session.abort_transaction(20.0)
    with pytest.raises(DeliveryError, match="cancelled"):
        session.flush()
    discard_session(session)
