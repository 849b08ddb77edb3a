"""A topic with a smaller limit than batch.size: the limit is learned once and then applied."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError, RecordTooLargeError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records import record_decoder
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE, BatchHeader
from spark_kafka_sink.kafka.records.record_encoder import encode_headers
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.limits.size_limits import DOUBLED_AFTER_S, BatchSizeLimits, half
from spark_kafka_sink.producer.send.batch_split import (
    closed_batch,
    header_lists,
    recompress,
    records_of,
    split,
)
from spark_kafka_sink.producer.session_settings import SessionSettings
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world
from tests.unit.producer.rejections import record_errors, tolerant

LIMIT = 700


@pytest.fixture(
    params=[
        ("none", ErrorCode.message_too_large),
        ("lz4", ErrorCode.message_too_large),
        ("none", ErrorCode.record_list_too_large),
    ],
    ids=["none", "lz4", "segment"],
)
def sim(request: pytest.FixtureRequest) -> Iterator[World]:
    codec, code = request.param
    cluster = FakeCluster(topics={"t": 2, "wide": 1})
    with world(cluster, batch_size=8_000, compression_type=codec) as sim_of_codec:
        for log in (cluster.logs["t", 0], cluster.logs["t", 1]):
            log.max_batch, log.too_large = LIMIT, code
        yield sim_of_codec


def random_values(count: int, first: int = 0) -> list[bytes]:
    """Return random values, which do not compress."""
    noise = np.random.default_rng(first)
    return [b"%05d" % (first + row) + noise.bytes(60) for row in range(count)]


def write(sim: World, count: int, first: int = 0, topic: str = "t") -> int:
    """Write rows to partition 0 and return the number of splits."""
    before = sim.report().splits
    sim.deliver(random_values(count, first), topic=topic)
    return sim.report().splits - before


def test_later_batches_are_not_split(sim: World) -> None:
    assert write(sim, 300) > 0
    sent = len(sim.cluster.seen)
    assert write(sim, 300, 300) == 0
    assert sim.cluster.logs["t", 0].values() == random_values(300) + random_values(300, 300)
    sizes = [len(data) for seen in sim.cluster.seen[sent:] for data in seen.batches.values()]
    assert max(sizes) <= LIMIT
    assert sum(sizes) / len(sizes) > LIMIT / 2 - 100
    assert sim.statuses() == {DeliveryStatus.PERSISTED: 600}
    sim.check_accounting()


def test_pieces_do_not_count_as_closed_batches(sim: World) -> None:
    sim.send(random_values(300))
    sim.steps(1)
    closed = len(sim.cluster.seen) + len(sim.buffer.queues.batches())
    sim.finish()
    metrics = sim.report().metrics
    assert (metrics.closed, metrics.fill_time.count) == (closed, closed)
    assert metrics.batch_size.count > closed


def test_limit_applies_to_other_partition_and_next_session(sim: World) -> None:
    write(sim, 300)
    before = sim.report().splits
    sim.deliver(random_values(300), partition=1)
    assert sim.report().splits == before
    sim.next_session()
    assert write(sim, 300, 300) == 0


def test_other_topics_keep_their_size(sim: World) -> None:
    write(sim, 300)
    write(sim, 300, topic="wide")
    assert max(map(len, sim.cluster.logs["wide", 0].batches)) > 6_000


def test_closed_batches_are_split_to_the_limit_directly(sim: World) -> None:
    """Repeated halves would need many more requests."""
    assert write(sim, 2_000) <= 30  # of about 18 batches


@pytest.mark.parametrize("doublings", [4, 12, 10**6])
@pytest.mark.parametrize("partition", [0, None], ids=["assigned", "unassigned"])
def test_raised_limit_is_detected(sim: World, doublings: int, partition: int | None) -> None:
    write(sim, 300)
    sim.cluster.logs["t", 0].max_batch = sim.cluster.logs["t", 1].max_batch = 1 << 20
    sim.clock.advance(doublings * DOUBLED_AFTER_S)
    sim.deliver(random_values(600, 300), partition)
    largest = max(len(data) for log in sim.cluster.logs.values() for data in log.batches)
    assert 6_000 < largest <= 8_000


def test_probing_an_unchanged_limit_costs_little(sim: World) -> None:
    write(sim, 300)
    sim.clock.advance(DOUBLED_AFTER_S)
    tries = write(sim, 300, 300)
    assert 0 < tries <= 40
    assert write(sim, 300, 600) == 0
    assert len(sim.cluster.logs["t", 0].values()) == 900


def test_one_large_record_does_not_lower_the_limit(sim: World) -> None:
    """A record that is rejected alone must not shrink all batches."""
    sim.send([np.random.default_rng(1).bytes(2 * LIMIT)])
    with pytest.raises(RecordTooLargeError):
        sim.finish()
    assert not sim.client.batch_size_limits


def test_limit_is_lowered_and_raised() -> None:
    limits = BatchSizeLimits(5_000)
    assert not limits
    assert limits.of("t", 5.0) == 5_000
    assert limits.record_rejected("t", HEADER_SIZE + 1_001, 10.0) == HEADER_SIZE + 501
    assert limits.record_rejected("t", HEADER_SIZE + 1_001, 11.0) == HEADER_SIZE + 501
    assert limits.record_rejected("t", HEADER_SIZE + 278, 12.0) == 200
    assert limits
    assert limits.of("u", 12.0) == 5_000
    assert limits.of("t", 12.0 + 0.9 * DOUBLED_AFTER_S) == 200
    assert limits.of("t", 12.0 + 2.5 * DOUBLED_AFTER_S) == 800
    assert limits.record_rejected("t", HEADER_SIZE + 678, 12.0 + 2.5 * DOUBLED_AFTER_S) == 400
    assert limits.of("t", 1e12) == 5_000


def batch_of(codec: Codec) -> ProducerBatch:
    """Create records with and without keys, values and headers, of different sizes and times."""
    count = 60
    lists = pa.array(
        [
            [{"key": b"h%d" % n, "value": None if n % 2 else b"v" * n} for n in range(row % 4)]
            for row in range(count)
        ],
        pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])),
    )
    columns = Columns(
        value=pa.array(
            [None if row % 7 == 3 else b"v" * (row * 5) for row in range(count)], pa.binary()
        ),
        key=pa.array([None if row % 3 else b"k" * row for row in range(count)], pa.binary()),
        headers=encode_headers(cast("pa.ListArray[Any]", lists)),
        timestamps=np.array([10**12 + row * 37 % 11 * 1000 for row in range(count)], np.int64),
    )
    batch = closed_batch(TopicPartition("t", 0), 0.0, columns)
    recompress(batch, codec, None)
    batch.set_sequence(7, 1, 2**31 - 30)
    return batch


@pytest.mark.parametrize("size", [1, 300, 1_000, 5_000, None])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_split_batches_contain_the_same_records(codec: Codec, size: int | None) -> None:
    batch = batch_of(codec)
    size = half(batch.raw_size) if size is None else size
    pieces = split(batch, size, None)
    assert len(pieces) >= 2
    before, after = records_of(batch), [record for piece in pieces for record in records_of(piece)]
    assert [(r.key, r.value, r.headers, r.timestamp) for r in after] == [
        (r.key, r.value, r.headers, r.timestamp) for r in before
    ]
    assert header_lists(after).equals(header_lists(before))
    assert all(
        piece.raw_size <= max(size, HEADER_SIZE + 8) or piece.records == 1 for piece in pieces
    )
    sequence = batch.sequence
    for piece in pieces:
        assert [record.offset for record in records_of(piece)] == list(range(piece.records))
        assert piece.max_timestamp == max(record.timestamp for record in records_of(piece))
        assert (piece.producer_id, piece.epoch, piece.sequence) == (7, 1, sequence)
        assert piece.codec is (codec if piece.size < piece.raw_size else Codec.NONE)
        assert piece.size <= piece.raw_size
        sequence = piece.next_sequence
    assert sequence == batch.next_sequence
    assert size < 1_000 or any(piece.codec is codec for piece in pieces)


@pytest.mark.parametrize("records", [2, 3, 17])
def test_two_records_are_split(records: int) -> None:
    stamps = np.zeros(records, np.int64)
    rows = [b"x"] * (records - 1) + [b"y" * 500]
    batch = closed_batch(
        TopicPartition("t", 0), 0.0, Columns(value=pa.array(rows, pa.binary()), timestamps=stamps)
    )
    pieces = split(batch, half(batch.raw_size), None)
    assert [record.value for piece in pieces for record in records_of(piece)] == rows
    assert len(pieces) >= 2


# Batches that grow when compressed.


def noise(size: int, seed: int = 1) -> bytes:
    return np.random.default_rng(seed).bytes(size)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sizes", [[100_000], [10_000] * 10], ids=["one", "many"])
def test_batch_that_fits_only_uncompressed_is_sent_uncompressed(
    codec: str, sizes: list[int]
) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, batch_size=1_000_000, compression_type=codec) as sim:
        log = cluster.logs["t", 0]
        rows = [noise(size, seed) for seed, size in enumerate(sizes)]
        sim.send(rows)
        ((_, batch),) = sim.buffer.accumulator.open_batches()
        log.max_batch = batch.raw_size
        sim.finish()
        assert log.values() == rows
        assert [BatchHeader.parse(data).codec for data in log.batches] == [Codec.NONE]
        assert sim.report().splits == 0
        sim.check_accounting()
        sim.deliver([b"." * 90_000])
        assert BatchHeader.parse(log.batches[-1]).codec.name.lower() == codec


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_splits_that_would_grow_stay_uncompressed(codec: Codec) -> None:
    random_values = pa.array([noise(500), noise(500, 2), b"." * 500, b"." * 500], pa.binary())
    columns = Columns(value=random_values, timestamps=np.zeros(4, np.int64))
    batch = closed_batch(TopicPartition("t", 0), 0.0, columns)
    recompress(batch, codec, None)
    assert batch.codec is codec
    pieces = split(batch, half(batch.raw_size), None)
    assert [piece.codec for piece in pieces] == [Codec.NONE, codec]
    assert [
        record.value for piece in pieces for record in records_of(piece)
    ] == random_values.to_pylist()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(
    "tolerance", [None, tolerant(None), tolerant()], ids=["fail", "drop", "keep"]
)
@pytest.mark.parametrize("records", [1, 20])
def test_own_batches_have_no_limit_of_decompression(
    monkeypatch: pytest.MonkeyPatch, records: int, tolerance: SessionSettings | None, codec: str
) -> None:
    """A row of hundreds of megabytes may compress well."""
    monkeypatch.setattr(record_decoder, "_MAX_DECOMPRESSED", 1_000)
    cluster = FakeCluster(topics={"t": 1, "dead": 1})
    with world(cluster, tolerance, batch_size=8_000, compression_type=codec) as sim:
        sim.fault(Fault(error=ErrorCode.message_too_large))
        sim.send([b"." * (6_000 // records)] * records)
        if records == 1 and tolerance is None:
            with pytest.raises(RecordTooLargeError, match=r"is 6,0\d\d bytes when serialized"):
                sim.finish()
            return
        sim.finish()
        assert cluster.logs["t", 0].end == records - (records == 1)
        assert [row.reason for row in sim.report().poison] == ["OVERSIZED"] * (records == 1)


# The response to a batch that is too large is lost.


@pytest.mark.parametrize(
    "lost",
    [
        Fault(lose=True),
        Fault(error=ErrorCode.request_timed_out),
        Fault(error=ErrorCode.not_enough_replicas_after_append),
    ],
    ids=str,
)
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_limit_is_learned_after_a_lost_response(lost: Fault, codec: str) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, batch_size=8_000, compression_type=codec) as sim:
        cluster.logs["t", 0].max_batch = LIMIT
        sim.fault(*[lost] * 3)
        sim.deliver(random_values(300))
        assert cluster.logs["t", 0].values() == random_values(300)
        assert sim.statuses() == {DeliveryStatus.PERSISTED: 300}
        sim.check_accounting()


@pytest.mark.parametrize(
    "lost", [Fault(lose=True), Fault(error=ErrorCode.request_timed_out, append=True)], ids=str
)
def test_batch_appended_before_the_limit_was_lowered_is_not_appended_again(lost: Fault) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, batch_size=8_000) as sim:
        sim.deliver([b"first"])
        sim.fault(lost)
        sim.send(random_values(60))
        sim.run(lambda: len(cluster.seen) == 2)
        cluster.logs["t", 0].max_batch = LIMIT
        with pytest.raises(DeliveryError) as caught:
            sim.finish()
        assert caught.value.kafka_error == "OUT_OF_ORDER_SEQUENCE_NUMBER"
        assert cluster.logs["t", 0].values() == [b"first", *random_values(60)]
        statuses = sim.statuses()
        assert statuses == {DeliveryStatus.PERSISTED: 1, DeliveryStatus.POSSIBLY_PERSISTED: 60}
        sim.check_accounting()


def test_accepted_split_resolves_the_doubt_about_the_others() -> None:
    """Rejected records become dead letters, as in a batch that was never in doubt."""
    named = record_errors(0)
    with world(FakeCluster(topics={"t": 1}), tolerant(None), batch_size=8_000) as sim:
        sim.cluster.logs["t", 0].max_batch = 2_500
        sim.fault(Fault(lose=True), None, None, Fault(error=ErrorCode.invalid_record, extra=named))
        rows = random_values(60)
        sim.deliver(rows)
        there = sim.cluster.logs["t", 0].values()
        assert len(there) == 59
        assert there == [row for row in rows if row in set(there)]
