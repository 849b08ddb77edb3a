"""Transactional ids across restarts, in the journal; Kafka's topic __transaction_state in small."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.coordinator.transaction_metadata import TransactionMetadata
from spark_kafka_sink.protocol.transaction_state import TransactionState

if TYPE_CHECKING:
    from spark_kafka_sink.broker.storage.journal import Journal

KIND = "transaction"


class TransactionStore:
    """Every transactional id as it was last kept."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def all(self) -> list[TransactionMetadata]:
        """What an earlier broker kept."""
        return [_read(value) for value in self._journal.all(KIND).values()]

    def put(self, txn: TransactionMetadata) -> None:
        """Keep a state."""
        value = {field.name: getattr(txn, field.name) for field in fields(txn)}
        value["partitions"] = sorted(txn.partitions)
        self._journal.put(KIND, (txn.id,), value)

    def drop(self, txn: TransactionMetadata) -> None:
        """Forget a transactional id."""
        self._journal.put(KIND, (txn.id,), None)


def _read(value: dict[str, object]) -> TransactionMetadata:
    known = {field.name for field in fields(TransactionMetadata)}
    values = {name: what for name, what in value.items() if name in known}
    topic_partitions = values.pop("partitions")
    state = TransactionState(str(values.pop("state")))
    assert isinstance(topic_partitions, list)
    partitions = frozenset((str(name), int(index)) for name, index in topic_partitions)
    return TransactionMetadata(partitions=partitions, state=state, **values)  # type: ignore[arg-type]
