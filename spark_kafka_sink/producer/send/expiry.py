"""delivery.timeout.ms: a batch that it has overtaken fails, wherever it waits.

The time of a batch begins when it is created. While it was never sent, it begins again whenever a
broker that it waits for acknowledges another batch, and at the end of each pause that such a broker
asked for (KIP-219): a buffer may hold more than a slow broker, or a quota, admits within
delivery.timeout.ms. Nobody waits for a single record of a task, and a broker that takes nothing is
still noticed after delivery.timeout.ms. Once the batch was sent, only pauses begin it again, and no
pause after a broker has refused it. A batch in flight may be in the log, so its records are
POSSIBLY_PERSISTED.

Sender thread only. Source: ``Sender.getExpiredInflightBatches``,
``RecordAccumulator.expiredBatches`` (KIP-91).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.client.topic_partition import UNASSIGNED
from spark_kafka_sink.producer.send.batch_completion import status_of
from spark_kafka_sink.producer.send.batch_failure import timeout_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.send.batch_completion import BatchCompletion
    from spark_kafka_sink.producer.send.send_context import SendContext

_EXPIRED = "DELIVERY_TIMEOUT"


def is_expired(context: SendContext, batch: ProducerBatch, now: float) -> bool:
    """Whether delivery.timeout.ms has passed for a batch, by `now` of the monotonic clock."""
    born_before = now - context.session.config.delivery_timeout_ms / 1000
    return batch.created <= born_before and timed_from(context, batch) <= born_before


def timed_from(context: SendContext, batch: ProducerBatch) -> float:
    """When delivery.timeout.ms of a batch began, in seconds of the monotonic clock."""
    network, times = context.session.client.network, [batch.created, batch.timed_from]
    for leader in _leaders(context, batch):
        if not batch.attempts:
            times.append(context.progress.get(leader, 0.0))
        if not batch.refused:
            times.append(network.throttled_until(leader))
    return max(times)


def _leaders(context: SendContext, batch: ProducerBatch) -> Collection[int]:
    """The brokers that a batch waits for; any of the topic's where it has no partition yet."""
    topic = context.metadata.cluster.topics.get(batch.partition.topic)
    if topic is None:
        return ()
    if batch.partition.partition == UNASSIGNED:
        return set(topic.leaders)
    return topic.leaders[batch.partition.partition : batch.partition.partition + 1]


def expire_batches(context: SendContext, completion: BatchCompletion, now: float) -> None:
    """Fail what waits to be sent again, what is in flight, and what was never sent, in this order.

    `now` in seconds of the monotonic clock.
    """

    def is_late(batch: ProducerBatch) -> bool:
        return is_expired(context, batch, now)

    late = context.take_retries(is_late)
    for batches in context.in_flight.values():
        for batch in [batch for batch in batches.in_flight if is_late(batch)]:
            batch.ambiguous = True
            batches.completed(batch)
            late.append(batch)
    late += context.accumulator.take_while(is_late)
    if not late:
        return
    failures = dict(context.session.client.network.failures.reasons)
    if (transactions := context.session.transactions) and (problem := transactions.problem):
        failures["the transaction's coordinator"] = problem
    throttled_ms = context.accumulator.state.throttled_ms
    timeout_ms = context.session.config.delivery_timeout_ms
    for batch in late:
        completion.fail(batch, status_of(batch), _EXPIRED)
        completion.fail_session(timeout_error(batch, timeout_ms, failures, throttled_ms))
