"""What it takes to end a transaction: nothing but this, on any connection.

Source: ``EndTxnRequest.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.transaction_version import TransactionVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transactional producer at one epoch, and the protocol that its transactions go by."""

    transactional_id: str
    producer_id: int
    epoch: int
    version: TransactionVersion
