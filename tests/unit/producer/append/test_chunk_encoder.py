"""Batches of encoded rows: their number of records, and the rows that errors name."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import RecordTooLargeError
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.buffer.batch_layout import MAX_BATCH_RECORDS
from spark_kafka_sink.producer.rows import Rows
from tests.support.harness.world import world

PERSISTED, NOT = DeliveryStatus.PERSISTED, DeliveryStatus.NOT_PERSISTED


def test_batch_closes_at_maximum_record_count() -> None:
    with world(batch_num_messages=3, linger_ms=10**6) as sim:
        sim.send([b"%d" % number for number in range(8)])
        sim.run(lambda: sim.cluster.logs["t", 0].end == 6)
        sim.steps(50)
        assert [len(sim.cluster.logs["t", 0].batches), sim.cluster.logs["t", 0].end] == [2, 6]


def test_batch_has_at_most_as_many_records_as_offset_deltas_can_number() -> None:
    rows = MAX_BATCH_RECORDS + 5
    with world(batch_size=1 << 26, buffer_memory=1 << 28, max_request_size=1 << 26) as sim:
        values = pa.nulls(rows, pa.binary())
        partition = pa.array(np.zeros(rows, np.int32), pa.int32())
        sim.session.append(Rows(columns=Columns(value=values), topics=("t",), partition=partition))
        sim.close_batches()
        sim.run(lambda: sim.cluster.logs["t", 0].end == rows)
        counts = [count for _, _, count in sim.cluster.logs["t", 0].sequences()]
        assert counts == [MAX_BATCH_RECORDS, 5]


@pytest.mark.parametrize(
    ("codec", "partitions", "skipped"),
    [("none", 4, 0), ("gzip", 4, 0), ("none", 4, 1), ("none", 1, 0), ("none", 1, 1)],
)
def test_error_names_the_record_that_is_too_large(
    codec: str, partitions: int, skipped: int
) -> None:
    """With several partitions, rows of a batch are not consecutive."""
    with world(batch_size=60_000, max_request_size=60_000, compression_type=codec) as sim:
        sim.cluster.logs["t", 41 % partitions].max_batch = 3_000
        values = [Random(row).randbytes(4_000 if row == 41 else 1_200) for row in range(60)]
        rows = Rows(
            columns=Columns(
                value=pa.array(values, pa.binary()),
                key=pa.array([f"k{row}".encode() for row in range(60)], pa.binary()),
            ),
            topics=("t",),
            partition=pa.array([row % partitions for row in range(60)], pa.int32()),
            first_row=7_000,
            spark_partition=3,
        )
        sim.appended = 60 - skipped
        sim.session.append(rows.select(np.arange(skipped, 60)) if skipped else rows)
        error = sim.await_failure()
        assert isinstance(error, RecordTooLargeError)
        assert error.kafka_error == "MESSAGE_TOO_LARGE"
        assert "row 7,041 of Spark partition 3 (key 'k41') is 4,0" in str(error)
        assert "more than the broker accepts" in str(error)
        assert "max.message.bytes" in str(error)
        assert sim.statuses()[PERSISTED] + sim.statuses()[NOT] == sim.appended


def test_small_rows_of_several_partitions_have_no_numbers_in_errors() -> None:
    """Their numbers would take much memory."""
    with world() as sim:
        sim.cluster.logs["t", 0].max_batch = 60
        columns = Columns(value=pa.array([b"."] * 8, pa.binary()))
        partition = pa.array([row % 4 for row in range(8)], pa.int32())
        sim.session.append(Rows(columns=columns, topics=("t",), partition=partition))
        sim.appended = 8
        assert "a row is" in str(sim.await_failure())
