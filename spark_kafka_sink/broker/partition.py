"""A partition as its leader sees it: log, producers, and who leads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.log import PartitionLog, Stamp
from spark_kafka_sink.broker.producers import Appended, ProducerTable
from spark_kafka_sink.broker.validation import RefusedBatchError, Rules, validate

if TYPE_CHECKING:
    from spark_kafka_sink.records.batch import BatchHeader

NO_TIME = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """Where a batch lies; `append_time` in milliseconds, -1 where the producer's time stands."""

    base_offset: int
    append_time: int


@dataclass(slots=True, kw_only=True)
class Partition:
    """One partition; `replicas` and `in_sync` are node ids, all data is in one place."""

    topic: str
    index: int
    leader: int
    replicas: list[int]
    in_sync: list[int]
    leader_epoch: int = 0
    log: PartitionLog = field(default_factory=PartitionLog)
    producers: ProducerTable = field(default_factory=ProducerTable)

    def append(self, records: memoryview | bytes | None, rules: Rules) -> AppendResult:
        """Validate a batch and append it, or find it again where it is a repetition.

        Raises:
            RefusedBatchError: it was not appended.
        """
        header = validate(records, rules)
        if header.is_transactional:
            raise RefusedBatchError(ErrorCode.invalid_txn_state, "This broker has no transactions")
        if header.producer_id < 0:
            return self._append(records or b"", header, rules)
        verdict = self.producers.judge(header)
        if isinstance(verdict, Appended):
            return AppendResult(base_offset=verdict.base_offset, append_time=verdict.append_time)
        if verdict is not ErrorCode.none:
            raise RefusedBatchError(verdict, _explain(self, header))
        result = self._append(records or b"", header, rules)
        self.producers.remember(header, result.base_offset, result.append_time)
        return result

    def _append(
        self, records: memoryview | bytes, header: BatchHeader, rules: Rules
    ) -> AppendResult:
        time = rules.now_ms if rules.config.stamps_records else None
        stamp = Stamp(leader_epoch=self.leader_epoch, append_time=time)
        base = self.log.append(records, header, stamp)
        return AppendResult(base_offset=base, append_time=NO_TIME if time is None else time)

    def leadership_error(self, node: int, epoch: int) -> ErrorCode:
        """Judge whether `node` may answer for the partition at the client's leader epoch (KIP-320).

        An epoch of -1 is not checked.
        """
        if node != self.leader:
            return ErrorCode.not_leader_or_follower
        if epoch in (-1, self.leader_epoch):
            return ErrorCode.none
        fenced = epoch < self.leader_epoch
        return ErrorCode.fenced_leader_epoch if fenced else ErrorCode.unknown_leader_epoch


def _explain(partition: Partition, header: BatchHeader) -> str:
    entry = partition.producers.entries[header.producer_id]
    return (
        f"Producer {header.producer_id} of epoch {header.producer_epoch} sent sequence "
        f"{header.base_sequence} to {partition.topic}-{partition.index}, which is at epoch "
        f"{entry.epoch}, sequence {entry.batches[-1].last_sequence}"
    )
