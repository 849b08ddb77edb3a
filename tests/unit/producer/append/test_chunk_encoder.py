"""Batches of encoded rows: their number of records, and the rows that errors name."""

from random import Random

import pyarrow as pa
import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import RecordTooLargeError
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.rows import Rows
from tests.support.harness.world import world

PERSISTED, NOT = DeliveryStatus.PERSISTED, DeliveryStatus.NOT_PERSISTED


def test_batch_closes_at_maximum_record_count() -> None:
    with world(batch_num_messages=3, linger_ms=10**6) as sim:
        sim.send([b"%d" % number for number in range(8)])
        sim.run(lambda: sim.cluster.logs["t", 0].end == 6)
        sim.steps(50)
        assert [len(sim.cluster.logs["t", 0].batches), sim.cluster.logs["t", 0].end] == [2, 6]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_error_names_the_record_that_is_too_large(codec: str) -> None:
    """Rows rotate over many partitions, so that rows of a batch are not consecutive."""
    with world(batch_size=60_000, max_request_size=60_000, compression_type=codec) as sim:
        sim.cluster.logs["t", 1].max_batch = 3_000
        values = [Random(row).randbytes(4_000 if row == 41 else 1_200) for row in range(60)]
        sim.appended = len(values)
        sim.session.append(
            Rows(
                columns=Columns(
                    value=pa.array(values, pa.binary()),
                    key=pa.array([f"k{row}".encode() for row in range(60)], pa.binary()),
                ),
                topics=("t",),
                partition=pa.array([row % 4 for row in range(60)], pa.int32()),
                first_row=7_000,
                spark_partition=3,
            )
        )
        error = sim.await_failure()
        assert isinstance(error, RecordTooLargeError)
        assert error.kafka_error == "MESSAGE_TOO_LARGE"
        assert "row 7,041 of Spark partition 3 (key 'k41') is 4,0" in str(error)
        assert "more than the broker accepts" in str(error)
        assert "max.message.bytes" in str(error)
        assert sim.statuses()[PERSISTED] + sim.statuses()[NOT] == 60
