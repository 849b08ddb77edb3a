"""Compressed batches are readable in both directions: by Kafka and by the package.

Compressed bytes may differ between libraries, so records are compared.
"""

import random
from dataclasses import replace

import pytest

from tests.golden.jvm_records import GoldenBatch, GoldenRecord, read_batches, write_batch
from tests.golden.our_batch import read_ours, write_ours
from tools.support.java import Jvm

NOW = 1_800_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LEVELS = {"gzip": (1, 5, 9), "lz4": (1, 9, 17), "zstd": (-5, 1, 12, 19)}


def batch_of(name: str, codec: str) -> GoldenBatch:
    """Create one record, compressible text, noise, or more than any codec's block."""
    source = random.Random(3)
    bodies: dict[str, list[bytes | None]] = {
        "one": [b"v"],
        "empty": [b""],
        "text": [b'{"flight": %d, "tail": "N14228"}' % n for n in range(300)],
        "noise": [source.randbytes(100) for _ in range(50)],
        "large": [b"abc" * 50_000, source.randbytes(150_000), None, b"end"],
    }
    stamped = (GoldenRecord(timestamp=NOW + n, value=v) for n, v in enumerate(bodies[name]))
    return GoldenBatch(
        records=tuple(stamped), codec=codec, producer_id=4, producer_epoch=0, base_sequence=0
    )


@pytest.mark.parametrize("name", ["one", "empty", "text", "noise", "large"])
@pytest.mark.parametrize("codec", CODECS)
def test_each_reads_the_others_batches(jvm: Jvm, codec: str, name: str) -> None:
    batch = batch_of(name, codec)
    assert read_batches(jvm, write_ours(batch)) == [batch]
    assert read_ours(write_batch(jvm, batch)) == batch


@pytest.mark.parametrize(("codec", "level"), [(c, n) for c, ns in LEVELS.items() for n in ns])
def test_kafka_reads_every_level(jvm: Jvm, codec: str, level: int) -> None:
    for name in ("text", "large"):
        batch = batch_of(name, codec)
        written = write_ours(batch, level)
        assert read_batches(jvm, written) == [batch]
        assert len(written) < len(write_ours(replace(batch, codec="none")))


def test_kafka_reads_consecutive_batches(jvm: Jvm) -> None:
    batches = [replace(batch_of("text", codec), base_offset=n) for n, codec in enumerate(CODECS)]
    assert read_batches(jvm, b"".join(map(write_ours, batches))) == batches
