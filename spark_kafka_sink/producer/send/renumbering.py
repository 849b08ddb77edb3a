"""New sequences for a partition of which nothing is in flight: in a new epoch, or in a transaction.

An epoch is a transaction's own: a producer that bumps it leaves the transaction. So in one, the
partition goes on at the sequence of the batch that was refused, as that appended nothing. What was
sent behind it and came back goes again with new sequences, if it is certain that no log has it.
Sender thread only. Source: KIP-98, KIP-890; ``TransactionManager.adjustSequencesDueToFailedBatch``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.producer.send.batch_failure import gap_error
from spark_kafka_sink.producer.send.epoch_bump import bump_epoch
from spark_kafka_sink.protocol.error_codes import ErrorCode, error_name

if TYPE_CHECKING:
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.send.batch_completion import BatchCompletion
    from spark_kafka_sink.producer.send.in_flight import InFlightBatches
    from spark_kafka_sink.producer.send.send_context import SendContext

_GAP = error_name(ErrorCode.out_of_order_sequence_number)


def renumber(context: SendContext, completion: BatchCompletion, batches: InFlightBatches) -> None:
    """Give the partition the new epoch, or the new sequences, that it needs."""
    if context.session.transactions is None:
        bump_epoch(context, completion, batches)
    else:
        _close_gap(context, completion, batches)


def _close_gap(context: SendContext, completion: BatchCompletion, batches: InFlightBatches) -> None:
    """Number what comes after a refused batch from that batch's sequence on."""
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
