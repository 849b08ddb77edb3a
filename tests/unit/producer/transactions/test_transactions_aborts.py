"""Aborted transactions and transactions that exceed their timeout."""

import time
from threading import Event
from typing import NoReturn

import pytest

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.producer.session_pool import discard_session
from tests.support.harness.coordinator import CoordinatorFault
from tests.support.harness.fake import Fault
from tests.support.harness.offline import config
from tests.support.harness.world import World
from tests.unit.producer.transactions.transactional_session import (
    END,
    ID,
    INIT,
    LOST,
    SETTINGS,
    UNAVAILABLE,
    UNDONE,
    is_v2,
)

SOON = 10.0
"""Seconds in which a wait must end; what is waited for would never come."""


def test_open_transaction_is_aborted(sim: World) -> None:
    sim.deliver_batches(2)
    assert sim.run_while_stepping(lambda: sim.session.abort_transaction(5.0))
    assert sim.cluster.coordinator.transactions[ID].state == "Aborted"
    assert [api for api, _ in sim.cluster.coordinator.requests][-1] is (END if is_v2(sim) else INIT)
    sim.steps(3)
    with pytest.raises(DeliveryError, match="its task was cancelled"):
        sim.session.flush_transaction()


def test_failed_session_is_aborted(sim: World) -> None:
    sim.fault(Fault(error=ErrorCode.invalid_topic_exception))
    sim.send_batches(2)
    with pytest.raises(DeliveryError):
        sim.finish()
    assert sim.run_while_stepping(lambda: sim.session.abort_transaction(5.0))
    assert sim.cluster.coordinator.transactions[ID].state == "Aborted"


def test_batches_are_not_sent_after_abort(sim: World) -> None:
    sim.deliver_batches(1)
    before = len(sim.cluster.seen)
    sim.send_batches(3)
    assert sim.run_while_stepping(lambda: sim.session.abort_transaction(5.0))
    sim.steps(20)
    assert len(sim.cluster.seen) == before
    assert sim.cluster.coordinator.transactions[ID].state == "Aborted"


def test_nothing_is_aborted_if_nothing_was_written(sim: World) -> None:
    assert sim.run_while_stepping(lambda: sim.session.abort_transaction(5.0))
    assert sim.cluster.coordinator.requests == []


@pytest.mark.parametrize(
    "trouble",
    [LOST, UNDONE, *(CoordinatorFault(error=code) for code in UNAVAILABLE)],
    ids=str,
)
def test_abort_is_retried(sim: World, trouble: CoordinatorFault) -> None:
    sim.deliver_batches(1)
    sim.cluster.coordinator.faults[END if is_v2(sim) else INIT].append(trouble)
    assert sim.run_while_stepping(lambda: sim.session.abort_transaction(5.0))
    known = sim.cluster.coordinator.transactions[ID]
    assert known.state == "Aborted" or (known.state == "Empty" and known.epoch == 2)


def test_abort_without_response_ends_at_its_timeout(sim: World) -> None:
    sim.deliver_batches(1)
    sim.cluster.unanswered.update({END, INIT})
    assert not sim.run_while_stepping(lambda: sim.session.abort_transaction(0.5), 0.05)


def test_abort_does_not_wait_for_a_crashed_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    crashing = Event()

    def crash(*_: object) -> NoReturn:
        crashing.set()
        raise RuntimeError("crashed")

    client = ProducerClient(config(linger_ms=0))
    monkeypatch.setattr(client.network, "poll", crash)
    session = ProducerSession(client, transaction=SETTINGS)
    assert crashing.wait(SOON)
    began = time.monotonic()
    assert not session.abort_transaction(600.0)
    assert time.monotonic() - began < SOON
    with pytest.raises(DeliveryError, match="sender thread stopped"):
        session.flush_transaction()
    discard_session(session)


# Timeouts.


def test_warning_at_half_of_the_timeout_is_logged_once(
    sim: World, caplog: pytest.LogCaptureFixture
) -> None:
    sim.deliver([b"1"])
    sim.clock.advance(31.0)
    sim.steps(5)
    sim.deliver([b"2"])
    warnings = [line for line in caplog.messages if "half of transaction" in line]
    assert len(warnings) == 1
    assert sim.session.flush_transaction() is not None


def test_expired_transaction_fails_the_session(sim: World) -> None:
    sim.deliver([b"1"])
    sim.clock.advance(60.0)
    sim.steps(3)
    with pytest.raises(DeliveryError) as caught:
        sim.session.flush_transaction()
    assert caught.value.kafka_error == "INVALID_TXN_STATE"
    manager = sim.session.transaction_manager
    assert manager is not None
    assert manager.transaction is None
