"""Rows through a whole session (route, lay out, encode, split) against the per-record reference."""

from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE, BatchHeader
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.rows import Rows
from tests.property.strategies import Shape, columns, messages, shapes
from tests.support import reference
from tests.support.clock import ManualClock
from tests.support.harness.offline import config, offline, take_batches, wire
from tests.support.reference import Message, Producer

PARTITIONS = 5
TOPIC = "t"
PLAIN = Shape(0, 0, hide_under_nulls=False, key_column=True, null_lists=False)
SLACK = 2 + 2 + 2 + 10 + 3
"""Bytes that a bound may exceed a record by: length, key length, value length, stamp, offset."""

rows = st.tuples(st.integers(0, PARTITIONS - 1), messages)
chunks = st.lists(st.lists(rows, max_size=40), min_size=1, max_size=4)
arrivals = st.none() | st.lists(
    st.integers(0, 9).map(lambda step: 10**12 + step)
    | st.integers(-(10**6), 10**6).map(lambda step: 10**12 + step)
    | st.integers(0, 2**45),
    min_size=4,
    max_size=4,
)
Chunks = list[list[tuple[int, Message]]]


def to_rows(chunk: list[tuple[int, Message]], shape: Shape, *, stamped: bool) -> Rows:
    return Rows(
        columns=columns([message for _, message in chunk], shape, stamped=stamped),
        topics=(TOPIC,),
        partition=pa.array([partition for partition, _ in chunk], pa.int32()),
    )


def lay_out(
    data: Chunks, shape: Shape, batch_size: int, times: list[int] | None = None
) -> dict[TopicPartition, list[ProducerBatch]]:
    """Return the batches of chunks appended at these times; None: each row has a timestamp."""
    clock = AdjustableClock()
    with offline(config(batch_size=batch_size), {TOPIC: PARTITIONS}, clock) as session:
        for number, chunk in enumerate(data):
            clock.ms = times[number] if times else 5_000
            session.append(to_rows(chunk, shape, stamped=times is None))
        return take_batches(session)


class AdjustableClock(ManualClock):
    """A wall clock that can be set, also backwards."""

    __slots__ = ("ms",)

    ms: int

    def wall_ms(self) -> int:
        return self.ms


def messages_of(data: Chunks, partition: int, arrivals: list[int] | None = None) -> list[Message]:
    """Return a partition's messages; with arrival times, each chunk's have its own."""
    messages = []
    for number, chunk in enumerate(data):
        mine = [message for target, message in chunk if target == partition]
        messages += [m.at(arrivals[number]) for m in mine] if arrivals else mine
    return messages


def check_partition(batches: list[ProducerBatch], sent: list[Message]) -> None:
    left = list(sent)
    for batch in batches:
        mine, left = left[: batch.records], left[batch.records :]
        batch.set_sequence(9, 3, 77)
        expected = reference.batch(mine, 0, reference.records(mine), Producer(9, 3, 77))
        # A client sets leader epoch -1 and base offset 0, like the reference.
        assert wire(batch) == expected
        assert batch.size == batch.raw_size == len(expected)
    assert left == []


@given(chunks, shapes, st.sampled_from([100, 200, 400, 1_000, 20_000]), arrivals)
@settings(max_examples=200, deadline=None)
def test_batches_equal_the_reference_byte_by_byte(
    data: Chunks, shape: Shape, batch_size: int, times: list[int] | None
) -> None:
    """A record without a timestamp gets the append time of its chunk, not of its batch."""
    laid_out = lay_out(data, shape, batch_size, times)
    for partition in range(PARTITIONS):
        batches = laid_out.pop(TopicPartition(TOPIC, partition), [])
        check_partition(batches, messages_of(data, partition, times))
        assert all(batch.raw_size <= batch_size or batch.records == 1 for batch in batches)
    assert laid_out == {}


@given(chunks, shapes, st.sampled_from([200, 400, 1_000, 20_000]))
@settings(max_examples=100, deadline=None)
def test_batches_respect_and_use_their_size(data: Chunks, shape: Shape, batch_size: int) -> None:
    for batches in lay_out(data, shape, batch_size).values():
        for batch in batches:
            assert batch.raw_size <= batch_size or batch.records == 1
        for batch, following in pairwise(batches):
            first = next(decode_batch(wire(following)))
            next_size = len(first.key or b"") + len(first.value or b"")
            next_size += sum(len(k) + len(v or b"") + 6 for k, v in first.headers)
            room = batch_size - batch.raw_size
            slack = SLACK * (batch.records + 1)
            assert next_size + slack >= room - batch_size // 64 - 1


@given(
    st.lists(messages, min_size=1, max_size=40),
    shapes,
    st.sampled_from([codec for codec in Codec if codec is not Codec.NONE]),
)
@settings(max_examples=100, deadline=None)
def test_compressed_batches_contain_the_same_records(
    batch: list[Message], shape: Shape, codec: Codec
) -> None:
    with offline(config(batch_size=10**6), {TOPIC: 1}) as session:
        session.append(to_rows([(0, message) for message in batch], shape, stamped=True))
        (laid_out,) = take_batches(session)[TopicPartition(TOPIC, 0)]
    plain = wire(laid_out)[HEADER_SIZE:]
    laid_out.set_payload(laid_out.compress_records(codec, None), codec)
    packed = wire(laid_out)
    assert BatchHeader.parse(packed).codec is codec
    assert packed == reference.batch(batch, int(codec), packed[HEADER_SIZE:], Producer())
    assert plain == reference.records(batch)
    read = [
        Message(r.value, r.key, tuple((k.encode(), v) for k, v in r.headers), r.timestamp)
        for r in decode_batch(packed)
    ]
    assert read == batch


@given(st.integers(90, 98), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_nearly_full_batch_is_continued_later_in_the_chunk(large: int, small: int) -> None:
    """Rows of a partition follow again after rows of another one."""
    data = [
        [(0, Message(b"x" * 195))] * large
        + [(1, Message(b"y"))]
        + [(0, Message(b"z"))] * small
        + [(2, Message(b"y"))]
        + [(0, Message(b"z"))]
    ]
    laid_out = lay_out(data, PLAIN, 20_000, [7_000])
    for (_, partition), batches in laid_out.items():
        check_partition(batches, messages_of(data, partition, [7_000]))
