"""Dead letters that the topic rejects for their size or time are truncated or corrected."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.header_lists import HEADER_LISTS
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.kafka.records.record_decoder import Record
from spark_kafka_sink.kafka.records.record_encoder import encode_headers
from spark_kafka_sink.producer.rows import Rows
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.log import FakeLog
from tests.support.harness.offline import START_MS
from tests.support.harness.world import World, world
from tests.unit.producer.rejections import DEAD, tolerant

LIMIT = 4_000
BIG = b"x" * (LIMIT + 1_000)
HALF = b"y" * (LIMIT // 2 + 200)
Row = tuple[bytes | None, bytes | None, bytes | None]
"""Key, value, and the value of a header h (None: no headers)."""

HOUR_MS = 3_600_000
FUTURE = START_MS + 1_000 * HOUR_MS
CASES: dict[str, tuple[Row, Row, str]] = {
    "value": ((b"k", BIG, b"h"), (b"k", None, b"h"), "its value is left out"),
    "key": ((BIG, b"v", b"h"), (None, None, b"h"), "its value and key are left out"),
    "headers": ((b"k", b"v", BIG), (b"k", None, None), "its value and headers are left out"),
    "key of a tombstone": ((BIG, None, b"h"), (None, None, b"h"), "its key is left out"),
    "all": ((BIG, BIG, BIG), (None, None, None), "its value, key and headers are left out"),
    "key and headers": (
        (HALF + b"k" * 20, b"v", HALF),
        (None, None, HALF),
        "its value and key are left out",
    ),
}


def rows(*contents: Row, partition: int = 0, stale: tuple[tuple[str, bytes], ...] = ()) -> Rows:
    """Return rows; `stale` are more headers of the rows with headers."""
    keys, values, headers = zip(*contents, strict=True)
    more = [{"key": name.encode(), "value": value} for name, value in stale]
    entries = [None if h is None else [{"key": b"h", "value": h}, *more] for h in headers]
    lists = cast("pa.ListArray[Any]", pa.array(entries, HEADER_LISTS))
    return Rows(
        columns=Columns(
            key=pa.array(keys, pa.binary()),
            value=pa.array(values, pa.binary()),
            headers=encode_headers(lists),
        ),
        topics=("t",),
        partition=pa.array([partition] * len(contents), pa.int32()),
        header_lists=lists,
    )


def letters(sim: World) -> list[Record]:
    return sim.cluster.logs[DEAD, 0].records()


def row_headers(record: Record) -> dict[str, bytes | None]:
    return {k: v for k, v in record.headers if not k.startswith("__connect")}


def message(record: Record) -> str:
    return (dict(record.headers)["__connect.errors.exception.message"] or b"").decode()


def cluster() -> FakeCluster:
    return FakeCluster(topics={"t": 2, DEAD: 1})


@pytest.mark.parametrize("case", CASES)
def test_part_exceeding_max_request_size_is_left_out(case: str) -> None:
    row, expected, words = CASES[case]
    with world(cluster(), tolerant(), max_request_size=LIMIT, buffer_memory=64_000) as sim:
        sim.session.append(rows((b"k", b"good", b"h"), row, (b"k2", b"good too", None)))
        sim.finish()
        assert sim.cluster.logs["t", 0].values() == [b"good", b"good too"]
        (dead,) = letters(sim)
        assert (dead.key, dead.value, row_headers(dead).get("h")) == expected
        assert "larger than max.request.size" in message(dead)
        assert words in message(dead)


@pytest.mark.parametrize("context", [True, False])
def test_row_at_the_limit_is_not_oversized_because_of_context_headers(*, context: bool) -> None:
    """The row fails for another reason and is so large that the context headers do not fit."""
    value = b"v" * (LIMIT - 150)
    with world(cluster(), tolerant(context=context), max_request_size=LIMIT) as sim:
        sim.append_while_stepping(rows((b"k", value, b"h"), (b"k", b"small", None), partition=9))
        sim.finish()
        large, small = letters(sim)
        assert (large.value, small.value) == (None if context else value, b"small")
        assert (large.key, row_headers(large)) == (b"k", {"h": b"h"})
        if context:
            assert "no such partition; its value is left out" in message(large)
            assert "left out" not in message(small)


def test_large_rows_fit_without_context_headers() -> None:
    with world(cluster(), tolerant(context=False), max_request_size=LIMIT) as sim:
        sim.session.append(rows((BIG, BIG, BIG), (b"k", b"good", b"h")))
        sim.finish()
        (dead,) = letters(sim)
        assert (dead.key, dead.value, dead.headers) == (None, None, ())


@pytest.mark.parametrize("case", CASES)
def test_part_exceeding_the_dead_letter_topics_limit_is_left_out(case: str) -> None:
    """The brokers' limit is below max.request.size for both topics."""
    row, expected, words = CASES[case]
    with world(cluster(), tolerant(), batch_size=1_000_000) as sim:
        for log in sim.cluster.logs.values():
            log.max_batch = LIMIT
        sim.session.append(rows(row, (b"k", b"good", b"h")))
        sim.finish()
        assert sim.cluster.logs["t", 0].values() == [b"good"]
        (dead,) = letters(sim)
        assert (dead.key, dead.value, row_headers(dead).get("h")) == expected
        assert words in message(dead)
        assert sim.buffer.state.incomplete_batches == 0
        assert sim.buffer.pool.used == 0


@pytest.mark.parametrize("part", ["value", "key", "headers"])
def test_headers_of_another_dead_letter_topic_belong_to_the_row(part: str) -> None:
    """Kafka Connect's messages have any bytes, and end like ours without meaning the same."""
    stale = (
        ("__connect.errors.exception.message", b"\xff; its key is left out"),
        ("__connect.errors.topic", b"source"),
    )
    row, expected, words = CASES[part]
    with world(cluster(), tolerant(), batch_size=1_000_000) as sim:
        for log in sim.cluster.logs.values():
            log.max_batch = LIMIT
        sim.session.append(rows(row, stale=stale))
        sim.finish()
        (dead,) = letters(sim)
        assert (dead.key, dead.value) == expected[:2]
        assert dead.headers[1:3] == stale if expected[2] is not None else len(dead.headers) == 8
        assert message(dead).endswith(words)


@pytest.mark.parametrize("error", [ErrorCode.message_too_large, ErrorCode.invalid_timestamp])
def test_row_with_headers_of_kafka_connect_is_no_dead_letter(error: ErrorCode) -> None:
    with world(cluster(), tolerant()) as sim:
        sim.fault(Fault(error=error))
        row = rows((b"k", b"v", b"h"), stale=(("__connect.errors.exception.message", b"\xff"),))
        sim.session.append(replace(row, topics=(DEAD,)))
        with pytest.raises(DeliveryError) as caught:
            sim.finish()
        assert caught.value.topic == DEAD
        assert letters(sim) == []


def test_dead_letter_without_value_that_is_too_large_fails_the_task() -> None:
    with world(cluster(), tolerant()) as sim:
        sim.cluster.logs["t", 0].max_batch = sim.cluster.logs[DEAD, 0].max_batch = 200
        sim.session.append(rows((b"k", b"v" * 500, None)))
        with pytest.raises(DeliveryError) as caught:
            sim.finish()
        assert caught.value.topic == DEAD


def test_ordinary_row_of_dead_letter_topic_is_not_truncated() -> None:
    with world(cluster(), tolerant()) as sim:
        sim.cluster.logs[DEAD, 0].max_batch = 1_000
        sim.send([b"v" * 2_000], 0, DEAD)
        with pytest.raises(DeliveryError) as caught:
            sim.finish()
        assert caught.value.kafka_error == "MESSAGE_TOO_LARGE"
        assert letters(sim) == []


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_large_batch_of_dead_letters_is_split(codec: str) -> None:
    with world(cluster(), tolerant(), batch_size=8_000, compression_type=codec) as sim:
        sim.fault(Fault(error=ErrorCode.topic_authorization_failed))
        sim.deliver([b"%04d" % number for number in range(500)])
        assert [record.value for record in letters(sim)] == [b"%04d" % n for n in range(500)]
        batches = sim.cluster.logs[DEAD, 0].batches
        assert len(batches) > 10
        if codec == "none":
            assert max(map(len, batches)) <= 8_000


class StrictLog(FakeLog):
    """A log that rejects timestamps more than an hour ahead, as Kafka's default."""

    def append(self, data: bytes) -> tuple[int, int]:
        if BatchHeader.parse(data).max_timestamp > START_MS + HOUR_MS:
            return 32, -1
        return super().append(data)


def strict_cluster() -> FakeCluster:
    fake_cluster = FakeCluster(1, {"t": 1, DEAD: 1})
    fake_cluster.logs = {
        topic_partition: StrictLog(leader=1) for topic_partition in fake_cluster.logs
    }
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


def letters_by_value(sim: World) -> dict[bytes | None, Record]:
    return {record.value: record for record in letters(sim)}


@pytest.mark.parametrize("headers", [True, False])
def test_rows_of_the_far_future_become_dead_letters_with_current_time(*, headers: bool) -> None:
    with world(strict_cluster(), tolerant(context=headers), batch_size=16_384) as sim:
        send(sim, [START_MS, FUTURE, START_MS + 1, FUTURE, START_MS + 2])
        assert sim.cluster.logs["t", 0].values() == [b"0", b"2", b"4"]
        by_value = letters_by_value(sim)
        assert by_value.keys() == {b"1", b"3"}
        assert all(abs(letter.timestamp - START_MS) < HOUR_MS for letter in by_value.values())
        sim.check_accounting()


def test_dead_letters_for_other_reasons_lose_an_invalid_time() -> None:
    with world(strict_cluster(), tolerant(), batch_size=16_384) as sim:
        send(sim, [START_MS - HOUR_MS, FUTURE, START_MS], [9, 9, 0])
        by_value = letters_by_value(sim)
        assert by_value.keys() == {b"0", b"1"}
        assert by_value[b"1"].timestamp < START_MS + HOUR_MS
        sim.check_accounting()


def test_dead_letters_rejected_at_any_time_fail_the_task() -> None:
    with world(strict_cluster(), tolerant()) as sim:
        sim.fault(*[Fault(error=ErrorCode.invalid_timestamp)] * 2)
        with pytest.raises(DeliveryError) as caught:
            send(sim, [START_MS], [9])
        assert caught.value.kafka_error == "INVALID_TIMESTAMP"


def test_other_records_of_dead_letter_topic_keep_their_time() -> None:
    """Without its headers, a dead letter cannot be distinguished from them."""
    with world(strict_cluster(), tolerant(context=False)) as sim:
        with pytest.raises(DeliveryError) as caught:
            send(sim, [FUTURE], [9])
        assert caught.value.kafka_error == "INVALID_TIMESTAMP"
