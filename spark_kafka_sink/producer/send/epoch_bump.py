"""The epoch bump: a partition starts over at sequence 0 in a new producer epoch (KIP-360).

Due after UNKNOWN_PRODUCER_ID, and after records were taken out of a batch. Sender thread only.
Source: ``TransactionManager.bumpIdempotentProducerEpoch``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.producer.send.batch_failure import batch_error
from spark_kafka_sink.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.protocol.produce.response_reader import PartitionResponse

if TYPE_CHECKING:
    from spark_kafka_sink.producer.send.batch_completion import BatchCompletion
    from spark_kafka_sink.producer.send.in_flight import InFlightBatches
    from spark_kafka_sink.producer.send.send_context import SendContext

_UNKNOWN_PRODUCER = PartitionResponse(code=ErrorCode.unknown_producer_id)


def bump_epoch(context: SendContext, completion: BatchCompletion, batches: InFlightBatches) -> None:
    """Give a partition of which nothing is in flight the new epoch that it needs.

    A batch that may be in the log can't be sent again under a new epoch: it fails.
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
