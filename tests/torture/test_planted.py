"""The harness detects each planted bug and reports no error without one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest

from spark_kafka_sink.kafka.client.request import Completion
from spark_kafka_sink.producer.send import response_handler
from spark_kafka_sink.producer.send.batch_result import BatchResult
from spark_kafka_sink.producer.send.error_policy import (
    BatchAction,
    BatchStep,
    RejectionFacts,
    next_step,
)
from spark_kafka_sink.producer.send.partition_state import PartitionState
from spark_kafka_sink.producer.send.rejection_handler import RejectionHandler
from spark_kafka_sink.producer.send.response_handler import ResponseHandler
from spark_kafka_sink.producer.send.sender import Sender
from tools.torture.harness import Result
from tools.torture.producer.plan import PATIENT_MS, ClusterFault, Partitioning, Plan
from tools.torture.proxy_faults import DUPLICATE_SEQUENCE, Fault

ATTEMPTS = 4


@dataclass(frozen=True)
class Planted:
    """A bug, a plan that triggers it and the expected error."""

    bug: Callable[[], AbstractContextManager[None]]
    plan: Plan
    signs: tuple[str, ...]


def make_plan(
    *faults: Fault, cluster_fault: ClusterFault = ClusterFault.NONE, rate: float = 0.15
) -> Plan:
    options = {
        "linger.ms": "0",
        "batch.size": "1000",
        "request.timeout.ms": "1000",
        "delivery.timeout.ms": str(PATIENT_MS),
        "max.in.flight.requests.per.connection": "5",
        "retry.backoff.ms": "10",
        "retry.backoff.max.ms": "50",
        "reconnect.backoff.ms": "10",
        "reconnect.backoff.max.ms": "50",
        "allow.auto.create.topics": "false",
    }
    return Plan(
        seed=1,
        cluster_faults=(cluster_fault,),
        faults=faults,
        rate=rate,
        partitions=2,
        min_isr=1,
        sessions=1,
        chunks=30,
        rows=60,
        value_size=60,
        pause_ms=2,
        partitioning=Partitioning.EXPLICIT,
        patient=True,
        options=tuple(sorted(options.items())),
    ).with_long_request_timeout()


@contextmanager
def sequence_reused_after_a_timeout() -> Iterator[None]:
    """Treat a batch without a response as not sent, so that the next batch reuses its sequence."""
    original = Sender._complete

    def complete(self: Sender, completion: Completion) -> None:
        original(self, completion)
        for state in self.partitions:
            for batch in reversed(state.retries):
                if batch.delivery.is_possibly_persisted and batch.sequence >= 0:
                    rewind(state, batch.sequence)
                    batch.clear_sequence()

    with patch.object(Sender, "_complete", complete):
        yield


@contextmanager
def duplicate_is_a_failure() -> Iterator[None]:
    """Treat DUPLICATE_SEQUENCE_NUMBER like any other error."""

    def wrong(code: int, facts: RejectionFacts) -> BatchStep:
        if code == DUPLICATE_SEQUENCE:
            return BatchStep(BatchAction.FAIL)
        return next_step(code, facts)

    with patch.object(response_handler, "next_step", wrong):
        yield


@contextmanager
def split_without_drain() -> Iterator[None]:
    """Renumber the parts of a split batch as if it were the last batch that was sent."""
    original = RejectionHandler.split

    def split(self: RejectionHandler, result: BatchResult, size: int) -> None:
        original(self, result, size)
        state, batch, _ = result
        for piece in [retry for retry in state.retries if retry.order[:-1] == batch.order]:
            piece.clear_sequence()
        rewind(state, batch.sequence)

    with patch.object(RejectionHandler, "split", split):
        yield


@contextmanager
def epoch_bumped_while_batches_are_under_way() -> Iterator[None]:
    """Start a new epoch immediately, without waiting for outstanding responses."""
    original = ResponseHandler._retry

    def retry(self: ResponseHandler, result: BatchResult, *rest: Any) -> None:
        original(self, result, *rest)
        state = result.state
        if state._must_renumber:
            in_flight, state._in_flight = state._in_flight, []
            known_by = state._known_by
            self.completer.renumber(state)
            state._in_flight, state._known_by = in_flight, known_by

    with patch.object(ResponseHandler, "_retry", retry):
        yield


PLANTED = [
    Planted(
        sequence_reused_after_a_timeout,
        make_plan(Fault.LOSE_RESPONSE),
        ("OUT_OF_ORDER", "LOST", "do not contain", "reported twice"),
    ),
    Planted(
        duplicate_is_a_failure,
        make_plan(Fault.DUPLICATE),
        ("rows, persisted", "DUPLICATE_SEQUENCE_NUMBER"),
    ),
    Planted(
        split_without_drain,
        make_plan(Fault.DELAY_RESPONSE, cluster_fault=ClusterFault.SMALL_MESSAGES, rate=0.5),
        ("OUT_OF_ORDER", "LOST", "do not contain", "reported twice"),
    ),
    Planted(
        epoch_bumped_while_batches_are_under_way,
        make_plan(Fault.FORGET),
        ("INVALID_PRODUCER_EPOCH", "OUT_OF_ORDER", "order:"),
    ),
]


def rewind(state: PartitionState, sequence: int) -> None:
    if state._next is not None:
        state._next = state._next._replace(sequence=sequence)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.bug.__name__)
def test_planted_bug_is_detected(torture: Callable[[Plan], Result[Plan]], planted: Planted) -> None:
    sound = torture(planted.plan)
    assert not sound.wrong
    with planted.bug():
        runs = (torture(replace(planted.plan, seed=seed)) for seed in range(1, 1 + ATTEMPTS))
        violation = next((run.wrong for run in runs if run.wrong), None)
    assert violation
    assert any(sign in text for text in violation for sign in planted.signs), violation
