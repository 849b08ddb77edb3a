"""Dead letters of rows with invalid timestamps: they must not be rejected for the same reason."""

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy, Tolerance
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.kafka.records.record_decoder import Record
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session_context import SessionSettings
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.log import FakeLog
from tests.support.harness.offline import START_MS
from tests.support.harness.world import World, world

DEAD = "dead"
HOUR_MS = 3_600_000
FUTURE = START_MS + 1_000 * HOUR_MS


class StrictLog(FakeLog):
    """A log that rejects timestamps more than an hour ahead, as Kafka's default."""

    def append(self, data: bytes) -> tuple[int, int]:
        if BatchHeader.parse(data).max_timestamp > START_MS + HOUR_MS:
            return 32, -1
        return super().append(data)


def settings(*, headers: bool = True) -> SessionSettings:
    return SessionSettings(
        dead_letters=DeadLetterPolicy(
            tolerance=Tolerance.ALL, dead_letter_topic=DEAD, context_headers=headers
        )
    )


def cluster() -> FakeCluster:
    fake_cluster = FakeCluster(1, {"t": 1, DEAD: 1})
    fake_cluster.logs = {place: StrictLog(leader=1) for place in fake_cluster.logs}
    return fake_cluster


def send(sim: World, stamps: list[int], partitions: list[int] | None = None) -> None:
    sim.appended += len(stamps)
    values = [b"%d" % number for number in range(len(stamps))]
    sim.session.append(
        Rows(
            columns=Columns(
                value=pa.array(values, pa.binary()), timestamps=np.array(stamps, np.int64)
            ),
            topics=("t",),
            partition=pa.array(partitions or [0] * len(stamps), pa.int32()),
        )
    )
    sim.finish()


def letters(sim: World) -> dict[bytes | None, Record]:
    return {record.value: record for record in sim.cluster.logs[DEAD, 0].records()}


@pytest.mark.parametrize("headers", [True, False])
def test_rows_of_the_far_future_become_dead_letters_with_current_time(*, headers: bool) -> None:
    with world(cluster(), settings(headers=headers), batch_size=16_384) as sim:
        send(sim, [START_MS, FUTURE, START_MS + 1, FUTURE, START_MS + 2])
        assert sim.cluster.logs["t", 0].values() == [b"0", b"2", b"4"]
        by_value = letters(sim)
        assert by_value.keys() == {b"1", b"3"}
        assert all(abs(letter.timestamp - START_MS) < HOUR_MS for letter in by_value.values())
        sim.check_accounting()


def test_dead_letters_for_other_reasons_lose_an_invalid_time() -> None:
    with world(cluster(), settings(), batch_size=16_384) as sim:
        send(sim, [START_MS - HOUR_MS, FUTURE, START_MS], [9, 9, 0])
        by_value = letters(sim)
        assert by_value.keys() == {b"0", b"1"}
        assert by_value[b"1"].timestamp < START_MS + HOUR_MS
        sim.check_accounting()


def test_dead_letters_rejected_at_any_time_fail_the_task() -> None:
    with world(cluster(), settings()) as sim:
        sim.fault(*[Fault(error=ErrorCode.invalid_timestamp)] * 2)
        with pytest.raises(DeliveryError) as caught:
            send(sim, [START_MS], [9])
        assert caught.value.error == "INVALID_TIMESTAMP"


def test_other_records_of_dead_letter_topic_keep_their_time() -> None:
    """Without its headers, a dead letter cannot be told apart from them."""
    with world(cluster(), settings(headers=False)) as sim:
        with pytest.raises(DeliveryError) as caught:
            send(sim, [FUTURE], [9])
        assert caught.value.error == "INVALID_TIMESTAMP"
