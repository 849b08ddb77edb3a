"""RecordBatches byte by byte against those of Kafka's MemoryRecordsBuilder."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.golden.jvm_records import GoldenBatch, GoldenRecord, write_batch
from tests.golden.our_batch import read_ours, write_ours
from tools.support.java import Jvm

NOW = 1_800_000_000_000
QUICK = settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)

nullable = st.none() | st.binary(max_size=40)
records = st.builds(
    GoldenRecord,
    timestamp=st.integers(0, 2**42) | st.integers(NOW - 1000, NOW + 1000),
    key=nullable,
    value=nullable,
    headers=st.lists(st.tuples(st.text(max_size=8), nullable), max_size=3).map(tuple),
)
batches = st.builds(
    GoldenBatch,
    records=st.lists(records, min_size=1, max_size=12).map(tuple),
    codec=st.just("none"),
    base_offset=st.integers(0, 2**50),
    producer_id=st.just(-1),
) | st.builds(
    GoldenBatch,
    records=st.lists(records, min_size=1, max_size=12).map(tuple),
    codec=st.just("none"),
    producer_id=st.integers(0, 2**50),
    producer_epoch=st.integers(0, 2**15 - 1),
    base_sequence=st.integers(0, 2**31 - 1),
    transactional=st.booleans(),
)


def values(sizes: list[int], *, compressible: bool = True) -> GoldenBatch:
    """Create a batch with a value of each size, as the producer creates it."""
    source = random.Random(7)
    fill = (lambda n: b"spark" * (n // 5) + b"k" * (n % 5)) if compressible else source.randbytes
    stamped = (GoldenRecord(timestamp=NOW, value=fill(size)) for size in sizes)
    return GoldenBatch(records=tuple(stamped), producer_id=9, producer_epoch=1, base_sequence=5)


def test_any_batch_matches_kafka(jvm: Jvm) -> None:
    @QUICK
    @given(batch=batches)
    def run(batch: GoldenBatch) -> None:
        golden = write_batch(jvm, batch)
        assert write_ours(batch) == golden
        assert read_ours(golden) == batch

    run()


@pytest.mark.parametrize(
    "batch",
    [
        values([100] * 70),
        values([0] * 8200),
        values([0, 1, 62, 63, 64, 65, 126, 127, 128, 8190, 8191, 8192, 65533, 65534, 65535]),
        values([70_000, 3, 200_000]),
    ],
    ids=["two-byte offset deltas", "three-byte offset deltas", "length edges", "beyond the table"],
)
def test_sizes_at_varint_limits_match_kafka(jvm: Jvm, batch: GoldenBatch) -> None:
    golden = write_batch(jvm, batch)
    assert write_ours(batch) == golden
    assert read_ours(golden) == batch


def test_decreasing_timestamps_match_kafka(jvm: Jvm) -> None:
    stamps = (NOW, NOW - 5, 0, NOW + 2**33, NOW)
    batch = GoldenBatch(records=tuple(GoldenRecord(timestamp=t, value=b"v") for t in stamps))
    assert write_ours(batch) == write_batch(jvm, batch)


def test_many_headers_match_kafka(jvm: Jvm) -> None:
    headers = tuple((f"name-{n}", b"x" * n if n % 3 else None) for n in range(200))
    mixed = (
        GoldenRecord(timestamp=NOW, value=b"a", headers=headers),
        GoldenRecord(timestamp=NOW, key=b"k", value=b"b"),
        GoldenRecord(timestamp=NOW, headers=(("", b""), ("ключ", "värde".encode()))),
    )
    batch = GoldenBatch(records=mixed)
    golden = write_batch(jvm, batch)
    assert write_ours(batch) == golden
    assert read_ours(golden) == batch
