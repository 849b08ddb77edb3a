"""A task's claim to its part of a transaction that all tasks share, where it has nothing to write.

A session that writes claims by itself. A task without rows claims as well: once all tasks have
reported, no other attempt of any of them can begin to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.admin.client_pool import borrowed_client
from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.config.exactly_once import acl_prefix
from spark_kafka_sink.producer.transactions.errors import second_attempt_error
from spark_kafka_sink.producer.transactions.settings import FIRST_EPOCH

if TYPE_CHECKING:
    from spark_kafka_sink.config.model import ProducerConfig


def claim(config: ProducerConfig, claim_id: str, timeout_ms: int, prefix: str) -> None:
    """Be the first to have InitProducerId of `claim_id` answered.

    Args:
        config: how to connect.
        claim_id: a `ClaimId`.
        timeout_ms: a transaction.timeout.ms that the brokers allow.
        prefix: transactionalIdPrefix, for the ACL that an error names.

    Raises:
        DeliveryError: another attempt was first, or this one was and the answer was lost.
        KafkaProdError: max.block.ms has passed, or a right is missing.
    """
    with borrowed_client(config) as client:
        admin = TransactionAdmin(client, acl_prefix(prefix))
        deadline = client.deadline(config.max_block_ms / 1000)
        granted = admin.init_producer_id(claim_id, timeout_ms, deadline)
    if granted.epoch != FIRST_EPOCH:
        raise second_attempt_error(claim_id)
