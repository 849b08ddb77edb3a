"""Invalid batches raise only ProtocolError, and use no memory for declared sizes."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.records.compression import compress, decompress
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE, BatchHeader, checksum
from spark_kafka_sink.kafka.records.record_decoder import read_records
from tests.property import reference
from tests.property.reference import Message, Producer

MESSAGES = [
    Message(b"value", key=b"key", headers=((b"h", b"w"), (b"", None)), timestamp=5),
    Message(None, timestamp=-70),
    Message(b"x" * 300, key=b"", timestamp=9),
]
PACKED = [codec for codec in Codec if codec is not Codec.NONE]


def batch(codec: Codec = Codec.NONE) -> bytes:
    section = compress(codec, reference.records(MESSAGES))
    return reference.batch(MESSAGES, int(codec), section, Producer())


@pytest.mark.parametrize("codec", list(Codec))
def test_batch_round_trip(codec: Codec) -> None:
    records = list(read_records(batch(codec)))
    assert [record.value for record in records] == [m.value for m in MESSAGES]
    assert [record.key for record in records] == [m.key for m in MESSAGES]
    assert [record.timestamp for record in records] == [5, -70, 9]
    assert [record.offset for record in records] == [0, 1, 2]
    assert records[0].headers == (("h", b"w"), ("", None))


def test_header_fields() -> None:
    data = reference.batch(MESSAGES, 0, reference.records(MESSAGES), Producer(7, 3, 99))
    header = BatchHeader.parse(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 99)
    assert (header.record_count, header.last_offset_delta, header.last_offset) == (3, 2, 2)
    assert (header.base_timestamp, header.max_timestamp) == (5, 9)
    assert header.size == len(data)
    assert header.crc == checksum(data) == reference.crc32c(data[21:])
    flags = (header.is_control, header.is_transactional, header.is_log_append_time)
    assert flags == (False, False, False)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_undefined_codecs(codec: int) -> None:
    data = bytearray(batch())
    data[22] |= codec
    with pytest.raises(ProtocolError, match=f"codec {codec}"):
        list(read_records(bytes(data)))


@given(st.sampled_from(list(Codec)), st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_batches(codec: Codec, data: st.DataObject) -> None:
    damaged = bytearray(batch(codec))
    for _ in range(data.draw(st.integers(1, 4))):
        # The codec and the record count stay, as any of them may be valid.
        at = data.draw(st.integers(HEADER_SIZE, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    del damaged[len(damaged) - data.draw(st.integers(0, 20)) :]
    try:
        records = list(read_records(bytes(damaged)))
    except ProtocolError:
        return
    assert len(records) == 3


@given(st.binary(max_size=80))
@settings(max_examples=200, deadline=None)
def test_any_bytes(data: bytes) -> None:
    with suppress(ProtocolError):
        assert list(read_records(data)) == []


@pytest.mark.parametrize("codec", PACKED)
def test_decompressed_size_beyond_the_limit(codec: Codec) -> None:
    packed = compress(codec, bytes(1 << 20))
    assert decompress(codec, packed, 1 << 20) == bytes(1 << 20)
    with pytest.raises(ProtocolError):
        decompress(codec, packed, (1 << 20) - 1)


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("level", [None, 1, 3, 9])
@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 32 * 1024 + 1, 300_000])
def test_levels_and_sizes(codec: Codec, level: int | None, size: int) -> None:
    plain = b"".join(b"%09d" % number for number in range(size // 9 + 1))[:size]
    for data in (plain, memoryview(plain)):
        assert decompress(codec, compress(codec, data, level), size) == plain


@pytest.mark.parametrize("codec", PACKED)
def test_bytes_of_another_codec(codec: Codec) -> None:
    with pytest.raises(ProtocolError, match=codec.name):
        decompress(codec, b"these bytes are not compressed at all", 1_000)
