"""Transaction states, versions and requests, shared by producers, drivers and the broker.

- `TransactionState`: the states of a transactional id at its coordinator.
- `TransactionalProducer`: all data needed to end a transaction, on any connection.
- `TransactionVersion`: Kafka's transaction protocols V1 and V2, and which version a broker
  supports.
- Functions that return the values of requests to a transaction coordinator.

Source: ``EndTxnRequest.json``, ``TransactionVersion``,
``TransactionManager.maybeUpdateTransactionV2Enabled``; KIP-98, KIP-360, KIP-699 (FindCoordinator in
batches), KIP-890, KIP-939.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.kafka.protocol.versions import PRODUCE_ADDS_PARTITIONS, ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spark_kafka_sink.kafka.protocol.messages import FieldValues

_FEATURE = "transaction.version"
_LEVEL = 2
"""The minimum finalized level of the feature that enables transactions V2."""
_NEEDED = {ApiKey.PRODUCE: PRODUCE_ADDS_PARTITIONS, ApiKey.END_TXN: 5}
"""The minimum API versions of transactions V2; lower versions use V1."""
NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of two-phase-commit transactions, as reported by brokers (KIP-939)."""
_KEY_TYPE = 1
"""FindCoordinator's key type for transactional ids."""
NO_COORDINATOR_HINT = (
    "Check that the topic __transaction_state has leaders: it is created with "
    "transaction.state.log.replication.factor replicas (3 by default), and needs as many brokers."
)
"""Hint for COORDINATOR_NOT_AVAILABLE."""


class TransactionState(StrEnum):
    """The states of a transaction in Kafka, with Kafka's names."""

    EMPTY = "Empty"
    """The transactional id has a producer id, but no transaction."""
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    """The commit is decided, and the markers are being written."""
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    """The transactional id has expired."""
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """InitProducerId is about to abort the transaction."""
    UNKNOWN = "Unknown"
    """A state that has no name in this version."""

    @classmethod
    def _missing_(cls, _value: object) -> TransactionState:
        return cls.UNKNOWN


OPEN_STATES = (
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.PREPARE_EPOCH_FENCE,
)
"""States in which a transaction blocks read_committed consumers at the last stable offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalProducer:
    """A transactional producer at one epoch, and the protocol version of its transactions."""

    transactional_id: str
    producer_id: int
    epoch: int
    version: TransactionVersion


class TransactionVersion(IntEnum):
    """The protocol of a transaction, which does not change before the transaction ends."""

    V1 = 1
    """AddPartitionsToTxn adds partitions. The epoch is constant until InitProducerId."""
    V2 = 2
    """Produce adds partitions. Every EndTxn bumps the epoch and returns the new epoch."""

    @classmethod
    def of(
        cls, levels: Mapping[str, int], versions: Mapping[int, VersionRange]
    ) -> TransactionVersion:
        """Return the version that a broker supports, according to its ApiVersions response.

        Args:
            levels: the finalized levels of the cluster's features.
            versions: the broker's version ranges by API key.
        """
        offers = all(
            api in versions and versions[api].highest >= needed for api, needed in _NEEDED.items()
        )
        return cls.V2 if offers and levels.get(_FEATURE, 0) >= _LEVEL else cls.V1

    def max_version(self, api: ApiKey) -> int | None:
        """Return the maximum version of an API in this protocol, or None if there is no limit."""
        return _NEEDED[api] - 1 if self is TransactionVersion.V1 else None

    @property
    def needs_add_partitions(self) -> bool:
        """True if AddPartitionsToTxn must precede the first Produce request to each partition."""
        return self is TransactionVersion.V1

    @property
    def bumps_epoch(self) -> bool:
        """True if the EndTxn response contains the epoch of the next transaction."""
        return self is TransactionVersion.V2


def find_coordinator_values(transactional_ids: Sequence[str]) -> FieldValues:
    """Return the values of FindCoordinator. Before version 4, only the first id is sent."""
    return {
        "key_type": _KEY_TYPE,
        "key": transactional_ids[0],
        "coordinator_keys": transactional_ids,
    }


class Coordinator(NamedTuple):
    """The result of FindCoordinator for one key."""

    key: str
    code: int
    """Kafka's error code; the address is only valid if it is 0."""
    message: str | None
    node_id: int
    host: str
    port: int


def read_coordinators(response: Any, keys: Sequence[str]) -> list[Coordinator]:
    """Return the coordinators in a response; before version 4, only that of the first key."""
    listed = getattr(response, "coordinators", None)
    single = zip(keys, [response], strict=False)
    results = single if listed is None else ((part.key, part) for part in listed)
    return [
        Coordinator(
            str(key),
            int(result.error_code),
            result.error_message,
            int(result.node_id),
            str(result.host),
            int(result.port),
        )
        for key, result in results
    ]


def read_partition_errors(response: Any) -> dict[tuple[str, int], int]:
    """Return the error code of AddPartitionsToTxn for each partition, up to version 3."""
    return {
        (str(topic.name), int(result.partition_index)): int(result.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    }


def init_producer_id_values(
    transactional_id: str | None,
    timeout_ms: int = NO_TIMEOUT_MS,
    *,
    current: TransactionalProducer | None = None,
    two_phase: bool = False,
) -> FieldValues:
    """Return the values of InitProducerId.

    Args:
        transactional_id: the transactional id; None for an idempotent producer.
        timeout_ms: transaction.timeout.ms.
        current: the producer whose epoch to bump (KIP-360), since version 3.
        two_phase: True if the producer's transactions never time out (KIP-939), since version 6.
    """
    producer = {}
    if current is not None:
        producer = {"producer_id": current.producer_id, "producer_epoch": current.epoch}
    return {
        "transactional_id": transactional_id,
        "transaction_timeout": timedelta(milliseconds=timeout_ms),
        "enable2_pc": two_phase,
        "keep_prepared_txn": False,
        **producer,
    }


def producer_in(
    response: Any, transactional_id: str, version: TransactionVersion
) -> TransactionalProducer:
    """Return the producer in a response to InitProducerId or EndTxn; -1 for missing fields."""
    return TransactionalProducer(
        transactional_id=transactional_id,
        producer_id=int(getattr(response, "producer_id", -1)),
        epoch=int(getattr(response, "producer_epoch", -1)),
        version=version,
    )


def add_partitions_values(
    transaction: TransactionalProducer, partitions: Iterable[tuple[str, int]]
) -> FieldValues:
    """Return the values of AddPartitionsToTxn up to version 3. Partitions are (topic, number)."""
    return {
        "v3_and_below_transactional_id": transaction.transactional_id,
        "v3_and_below_producer_id": transaction.producer_id,
        "v3_and_below_producer_epoch": transaction.epoch,
        "v3_and_below_topics": group_by_topic(partitions, "partitions"),
    }


def end_txn_values(transaction: TransactionalProducer, *, commit: bool) -> FieldValues:
    """Return the values of EndTxn."""
    return {
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.epoch,
        "committed": commit,
    }


def group_by_topic(partitions: Iterable[tuple[str, int]], numbers: str) -> list[dict[str, Any]]:
    """Group partitions by topic, as in requests. `numbers` is the name of the partitions field."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return [{"name": name, numbers: indexes} for name, indexes in grouped.items()]
