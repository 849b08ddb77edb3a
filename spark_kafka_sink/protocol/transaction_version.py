"""Kafka's transaction protocols, and which of them a broker speaks (KIP-98, KIP-890).

Source: ``TransactionVersion``, ``TransactionManager.maybeUpdateTransactionV2Enabled``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.protocol.features import Features
    from spark_kafka_sink.protocol.versions import VersionRange

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
