"""Bugs that the harness must find; they are patched into the producer temporarily."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from spark_kafka_sink.client.request import Completion
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.send import response_handler
from spark_kafka_sink.producer.send.batch_split import Answer
from spark_kafka_sink.producer.send.partition_state import PartitionState
from spark_kafka_sink.producer.send.response_handler import (
    Action,
    Decision,
    Facts,
    ResponseHandler,
    decide,
)
from spark_kafka_sink.producer.send.sender import Sender
from tools.torture.proxy import DUPLICATE_SEQUENCE


@contextmanager
def sequence_reused_after_a_timeout() -> Iterator[None]:
    """Treat a batch without a response as not sent, so that the next batch reuses its sequence."""
    original = Sender._complete

    def complete(self: Sender, completion: Completion) -> None:
        original(self, completion)
        for state in self._partitions:
            for batch in reversed(state.retries):
                if batch.ambiguous and batch.sequence >= 0:
                    _rewind(state, batch.sequence)
                    batch.unnumber()

    with patch.object(Sender, "_complete", complete):
        yield


@contextmanager
def duplicate_is_a_failure() -> Iterator[None]:
    """Treat DUPLICATE_SEQUENCE_NUMBER like any other error."""

    def wrong(code: int, facts: Facts) -> Decision:
        if code == DUPLICATE_SEQUENCE:
            return Decision(Action.FAIL)
        return decide(code, facts)

    with patch.object(response_handler, "decide", wrong):
        yield


@contextmanager
def split_without_drain() -> Iterator[None]:
    """Renumber the parts of a split batch as if it were the last batch that was sent."""
    original = ResponseHandler._split

    def split(
        self: ResponseHandler, state: PartitionState, batch: ProducerBatch, size: int
    ) -> None:
        original(self, state, batch, size)
        for piece in [one for one in state.retries if one.order[:-1] == batch.order]:
            piece.unnumber()
        _rewind(state, batch.sequence)

    with patch.object(ResponseHandler, "_split", split):
        yield


@contextmanager
def epoch_bumped_while_batches_are_under_way() -> Iterator[None]:
    """Start a new epoch immediately, without waiting for outstanding responses."""
    original = ResponseHandler._retry

    def retry(self: ResponseHandler, answer: Answer, *rest: Any) -> None:
        original(self, answer, *rest)
        state = answer.state
        if state._must_renumber:
            in_flight, state._in_flight = state._in_flight, []
            known_by = state._known_by
            self._completion.renumber(state)
            state._in_flight, state._known_by = in_flight, known_by

    with patch.object(ResponseHandler, "_retry", retry):
        yield


def _rewind(state: PartitionState, sequence: int) -> None:
    if state._next is not None:
        state._next = state._next._replace(sequence=sequence)
