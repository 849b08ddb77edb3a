"""New sequences for a partition with nothing in flight: epoch bump, or renumbering.

Outside transactions, the partition restarts at sequence 0 in a new producer epoch (KIP-360). This
is due after UNKNOWN_PRODUCER_ID, and after records were removed from a batch.

In a transaction the epoch must not change: a producer that bumps it leaves the transaction. The
partition continues at the sequence of the refused batch, which appended nothing. Batches that were
sent after it and returned to the retry queue are resent with new sequences, provided that none of
them can be in the log.

Sender thread only. Source: KIP-98, KIP-360, KIP-890;
``TransactionManager.bumpIdempotentProducerEpoch``,
``TransactionManager.adjustSequencesDueToFailedBatch``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.producer.send.batch_failure import batch_error, gap_error
from spark_kafka_sink.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.protocol.produce_response import PartitionResponse

if TYPE_CHECKING:
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.send.batch_completion import BatchCompletion
    from spark_kafka_sink.producer.send.in_flight import InFlightBatches
    from spark_kafka_sink.producer.send.send_context import SendContext


_GAP = error_name(ErrorCode.out_of_order_sequence_number)


def renumber(context: SendContext, completion: BatchCompletion, batches: InFlightBatches) -> None:
    """Give the partition the new epoch or the new sequences that it needs."""
    if context.session.transactions is None:
        bump_epoch(context, completion, batches)
    else:
        _close_gap(context, completion, batches)


def _close_gap(context: SendContext, completion: BatchCompletion, batches: InFlightBatches) -> None:
    """Renumber the batches after a refused batch from that batch's sequence on."""
    gap = batches.gap
    assert gap is not None

    def is_doubtful(batch: ProducerBatch) -> bool:
        return batch.ambiguous and batch.order >= gap.order

    doubtful = batches.take_retries(is_doubtful)
    if doubtful or batches.passed_gap:
        for batch in doubtful:
            completion.fail(batch, DeliveryStatus.POSSIBLY_PERSISTED, _GAP)
        completion.fail_session(gap_error(batches.partition))
        return
    context.session.producer_state.rewind(batches.partition, gap.sequence)
    context.session.events.renumbered(batches.partition, gap.sequence)
    batches.gap_closed()


_UNKNOWN_PRODUCER = PartitionResponse(code=ErrorCode.unknown_producer_id)


def bump_epoch(context: SendContext, completion: BatchCompletion, batches: InFlightBatches) -> None:
    """Start a new epoch for a partition with nothing in flight.

    A batch that may be in the log cannot be sent again in a new epoch, so it fails.
    """
    state = context.session.producer_state
    state.bump_epoch(batches.partition)
    context.session.events.epoch_bumped(batches.partition, state)
    lost = batches.take_retries(lambda batch: batch.ambiguous)
    batches.epoch_bumped()
    for batch in lost:
        error = batch_error(batch, _UNKNOWN_PRODUCER, context.session.acls)
        completion.fail(
            batch, DeliveryStatus.POSSIBLY_PERSISTED, error_name(_UNKNOWN_PRODUCER.code)
        )
        completion.fail_session(error)
