"""Sending and being acknowledged, when nothing goes wrong."""

from __future__ import annotations

import pytest

from spark_kafka_sink.base.report import DeliveryStatus
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange
from spark_kafka_sink.records.batch import BatchHeader
from tests.unit.producer.harness.fake import FakeCluster, Fault
from tests.unit.producer.harness.world import World, world


def sequences(one: World, partition: int = 0) -> list[tuple[int, int, int]]:
    headers = map(BatchHeader.parse, one.cluster.logs["t", partition].batches)
    return [(h.producer_epoch, h.base_sequence, h.record_count) for h in headers]


def test_records_arrive_in_order_with_gapless_sequences() -> None:
    with world() as one:
        values = one.send_batches(7)
        one.finish()
        assert one.cluster.logs["t", 0].values() == values
        assert sequences(one) == [(0, 3 * number, 3) for number in range(7)]
        assert one.statuses() == {DeliveryStatus.PERSISTED: 21}
        one.check_accounts()


def test_the_report_knows_offsets_and_bytes() -> None:
    with world() as one:
        one.send_batches(3)
        one.finish()
        (part,) = one.report().partitions
        log = one.cluster.logs["t", 0]
        assert (part.batches, part.first_offset, part.last_offset) == (3, 0, 8)
        assert part.bytes_sent == sum(map(len, log.batches))
