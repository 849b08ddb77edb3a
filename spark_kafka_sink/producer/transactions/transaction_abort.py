"""The abort of a failed transaction: its request, and what a response means.

These are decisions without side effects; `TransactionManager` carries them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol.error_codes import (
    COORDINATOR_UNAVAILABLE,
    TRANSACTION_ENDED,
    ErrorCode,
)
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.transactions import coordinator_requests
from spark_kafka_sink.producer.transactions.producer_transaction_state import (
    ProducerTransactionState,
)

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.node_api_versions import NodeApiVersions
    from spark_kafka_sink.kafka.client.request import Request
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
    from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings


def abort_request(
    versions: NodeApiVersions,
    settings: TransactionSettings,
    opened: TransactionalProducer | None,
    context: object,
) -> Request:
    """Return the request that aborts the transaction; `opened` may be None in a shared one."""
    if settings.shared is not None:
        # If a newer driver has bumped the epoch, EndTxn fails, whereas InitProducerId would abort
        # the newer driver's transaction.
        return coordinator_requests.end_request(versions, settings.shared.producer, context)
    assert opened is not None
    if opened.version.bumps_epoch:
        return coordinator_requests.end_request(versions, opened, context)
    # A new epoch aborts the transaction and also fences batches that are still in flight.
    return coordinator_requests.init_producer_id_request(versions, settings, context)


def state_after_abort(api: ApiKey, code: int) -> ProducerTransactionState:
    """Return the state after the response to an abort request; ABORTING if it must be retried."""
    # This is the first response to the request for a new epoch, so the old transaction is being
    # aborted.
    is_aborting = api is ApiKey.INIT_PRODUCER_ID and code == ErrorCode.concurrent_transactions
    if is_aborting or code in TRANSACTION_ENDED:
        return ProducerTransactionState.ABORTED
    if code in COORDINATOR_UNAVAILABLE:
        return ProducerTransactionState.ABORTING
    return ProducerTransactionState.FATAL_ERROR
