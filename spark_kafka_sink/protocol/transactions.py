"""Transaction states, versions and requests that producers, drivers and broker share.

What it takes to end a transaction: nothing but this, on any connection.

Source: ``EndTxnRequest.json``.

Kafka's transaction protocols, and which of them a broker speaks (KIP-98, KIP-890).

Source: ``TransactionVersion``, ``TransactionManager.maybeUpdateTransactionV2Enabled``.

What the requests to a transaction coordinator say, whoever sends them.

Source: KIP-98, KIP-360, KIP-699 (FindCoordinator in batches), KIP-890, KIP-939.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spark_kafka_sink.protocol.messages import Values
    from spark_kafka_sink.protocol.versions import Features, VersionRange


class TransactionState(StrEnum):
    """Kafka's TransactionState, by its names there."""

    EMPTY = "Empty"
    """The producer has an id, and no transaction since."""
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    """It will be committed: the markers are being written."""
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    """The id has expired."""
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """InitProducerId is about to abort it."""
    UNKNOWN = "Unknown"
    """One that this version has no name for."""

    @classmethod
    def _missing_(cls, _value: object) -> TransactionState:
        return cls.UNKNOWN


OPEN_STATES = (
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.PREPARE_EPOCH_FENCE,
)
"""Those that hold readers back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transactional producer at one epoch, and the protocol that its transactions go by."""

    transactional_id: str
    producer_id: int
    epoch: int
    version: TransactionVersion


FEATURE = "transaction.version"
_LEVEL = 2
"""The finalized level of the feature from which brokers allow transactions V2."""
_NEEDED = {ApiKey.PRODUCE: 12, ApiKey.END_TXN: 5}
"""The versions that belong to transactions V2; lower ones are the protocol of V1."""


class TransactionVersion(IntEnum):
    """The protocol of one transaction; it ends as it began, whoever ends it."""

    V1 = 1
    """Partitions are added by AddPartitionsToTxn; the epoch stays until InitProducerId."""
    V2 = 2
    """Produce adds its partitions; every EndTxn bumps the epoch, and its answer has the new one."""

    @classmethod
    def of(cls, features: Features, versions: Mapping[int, VersionRange]) -> TransactionVersion:
        """The version that a broker speaks by its answer to ApiVersions.

        Args:
            features: what the cluster has finalized.
            versions: what the broker offers, by API.
        """
        offers = all(
            api in versions and versions[api].highest >= least for api, least in _NEEDED.items()
        )
        return cls.V2 if offers and features.level(FEATURE) >= _LEVEL else cls.V1

    @property
    def produce_cap(self) -> int | None:
        """The highest version of Produce that may be used; None for any."""
        return 11 if self is TransactionVersion.V1 else None

    @property
    def end_txn_cap(self) -> int | None:
        """The highest version of EndTxn that may be used; None for any."""
        return 4 if self is TransactionVersion.V1 else None

    @property
    def txn_offset_commit_cap(self) -> int | None:
        """The highest version of TxnOffsetCommit that may be used; None for any."""
        return 4 if self is TransactionVersion.V1 else None

    @property
    def needs_add_partitions(self) -> bool:
        """Whether AddPartitionsToTxn comes before the first Produce to each partition."""
        return self is TransactionVersion.V1

    @property
    def bumps_epoch(self) -> bool:
        """Whether the answer to EndTxn has the epoch of the next transaction."""
        return self is TransactionVersion.V2


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
