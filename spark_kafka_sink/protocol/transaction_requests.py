"""What the requests to a transaction coordinator say, whoever sends them.

Source: KIP-98, KIP-360, KIP-699 (FindCoordinator in batches), KIP-890, KIP-939.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_kafka_sink.protocol.message_builder import Values
    from spark_kafka_sink.protocol.open_transaction import OpenTransaction

_KEY_TYPE = 1
"""FindCoordinator: the keys are transactional ids."""


def find_coordinator(transactional_ids: Sequence[str]) -> Values:
    """FindCoordinator of any version; one below 4 asks for the first id alone."""
    return {
        "key_type": _KEY_TYPE,
        "key": transactional_ids[0],
        "coordinator_keys": transactional_ids,
    }


def init_producer_id(
    transactional_id: str,
    timeout_ms: int,
    *,
    current: OpenTransaction | None = None,
    two_phase: bool = False,
) -> Values:
    """InitProducerId.

    Args:
        transactional_id: the id.
        timeout_ms: transaction.timeout.ms.
        current: the producer to go on from (KIP-360), from version 3 on.
        two_phase: whether its transactions never time out (KIP-939), from version 6 on.
    """
    known = {}
    if current is not None:
        known = {"producer_id": current.producer_id, "producer_epoch": current.epoch}
    return {
        "transactional_id": transactional_id,
        "transaction_timeout": timedelta(milliseconds=timeout_ms),
        "enable2_pc": two_phase,
        "keep_prepared_txn": False,
        **known,
    }


def add_partitions(transaction: OpenTransaction, partitions: Iterable[tuple[str, int]]) -> Values:
    """AddPartitionsToTxn, up to version 3; partitions are (topic, number)."""
    return {
        "v3_and_below_transactional_id": transaction.transactional_id,
        "v3_and_below_producer_id": transaction.producer_id,
        "v3_and_below_producer_epoch": transaction.epoch,
        "v3_and_below_topics": by_topic(partitions, "partitions"),
    }


def end_txn(transaction: OpenTransaction, *, commit: bool) -> Values:
    """EndTxn."""
    return {
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.epoch,
        "committed": commit,
    }


def by_topic(partitions: Iterable[tuple[str, int]], numbers: str) -> list[dict[str, Any]]:
    """Partitions as requests name them; `numbers` is the name of the field with their numbers."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return [{"name": name, numbers: found} for name, found in grouped.items()]
