"""delivery.timeout.ms: a batch that it has overtaken fails, wherever it waits.

Counted from the batch's creation; one in flight may be in the log, so that its records are
POSSIBLY_PERSISTED. Sender thread only. Source: ``Sender.getExpiredInflightBatches``,
``RecordAccumulator.expiredBatches`` (KIP-91).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.producer.send.batch_completion import status_of
from spark_kafka_sink.producer.send.batch_failure import timeout_error

if TYPE_CHECKING:
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.send.batch_completion import BatchCompletion
    from spark_kafka_sink.producer.send.send_context import SendContext

_EXPIRED = "DELIVERY_TIMEOUT"


def expire_batches(context: SendContext, completion: BatchCompletion, now: float) -> None:
    """Fail what waits to be sent again, what is in flight, and what was never sent, in this order.

    `now` in seconds of the monotonic clock.
    """
    timeout_ms = context.session.config.delivery_timeout_ms
    born_before = now - timeout_ms / 1000

    def is_late(batch: ProducerBatch) -> bool:
        return batch.created <= born_before

    late = context.take_retries(is_late)
    for batches in context.in_flight.values():
        for batch in [batch for batch in batches.in_flight if is_late(batch)]:
            batch.ambiguous = True
            batches.completed(batch)
            late.append(batch)
    late += context.accumulator.take_while(is_late)
    failures = dict(context.session.client.network.failures.reasons)
    if (transactions := context.session.transactions) and (problem := transactions.problem):
        failures["the transaction's coordinator"] = problem
    for batch in late:
        completion.fail(batch, status_of(batch), _EXPIRED)
        completion.fail_session(timeout_error(batch, timeout_ms, failures))
