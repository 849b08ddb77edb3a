"""Compression round-trips; damaged records are rejected, or read as Java would."""

import gzip

import lz4.frame
import pytest

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.records.compression import compress, decompress

PLAIN = b"".join(b"record %d of some kind;" % number for number in range(5000))
LIMIT = 1 << 24
CODECS = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("keep", [0.99, 0.5, 0.01])
def test_truncated_payload_is_rejected(codec: Codec, keep: float) -> None:
    data = compress(codec, PLAIN)
    with pytest.raises(ProtocolError, match=codec.name):
        decompress(codec, data[: int(len(data) * keep)], LIMIT)


@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_of_a_small_payload(codec: Codec) -> None:
    data = compress(codec, b"0123456789" * 3)
    whole_blocks = {0, 16} if codec is Codec.SNAPPY else {0} if codec is Codec.ZSTD else set()
    for size in range(len(data)):
        if size in whole_blocks:
            continue
        with pytest.raises(ProtocolError):
            decompress(codec, data[:size], LIMIT)


@pytest.mark.parametrize("codec", CODECS)
def test_payload_beyond_the_limit_is_rejected(codec: Codec) -> None:
    data = compress(codec, PLAIN)
    assert decompress(codec, data, len(PLAIN)) == PLAIN
    with pytest.raises(ProtocolError):
        decompress(codec, data, len(PLAIN) - 1)


def test_gzip_detects_a_wrong_byte() -> None:
    data = bytearray(compress(Codec.GZIP, PLAIN))
    data[len(data) // 2] ^= 0xFF
    with pytest.raises(ProtocolError):
        decompress(Codec.GZIP, data, LIMIT)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_trailing_bytes_are_ignored(codec: Codec) -> None:
    assert decompress(codec, compress(codec, PLAIN) + b"rubbish", LIMIT) == PLAIN


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.ZSTD])
def test_trailing_bytes_are_an_error(codec: Codec) -> None:
    with pytest.raises(ProtocolError):
        decompress(codec, compress(codec, PLAIN) + b"rubbish", LIMIT)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_several_members_are_one_payload(codec: Codec) -> None:
    data = compress(codec, PLAIN) + compress(codec, b"and more")
    assert decompress(codec, data, LIMIT) == PLAIN + b"and more"


def test_gzip_of_another_writer() -> None:
    assert decompress(Codec.GZIP, gzip.compress(PLAIN, 1), LIMIT) == PLAIN


def test_linked_lz4_blocks() -> None:
    data = lz4.frame.compress(PLAIN, block_linked=True)
    with pytest.raises(ProtocolError) as caught:
        decompress(Codec.LZ4, data, LIMIT)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("level", [None, 1, 3, 9])
@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 32 * 1024 + 1, 300_000])
def test_every_level_and_size_round_trips(codec: Codec, level: int | None, size: int) -> None:
    plain = b"".join(b"%09d" % number for number in range(size // 9 + 1))[:size]
    for data in (plain, memoryview(plain)):
        assert decompress(codec, compress(codec, data, level), size) == plain


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_of_another_codec(codec: Codec) -> None:
    with pytest.raises(ProtocolError, match=codec.name):
        decompress(codec, b"these bytes are not compressed at all", 1_000)
