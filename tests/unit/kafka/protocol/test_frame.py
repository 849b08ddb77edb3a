"""Frames in chunks of any size."""

import tracemalloc
from itertools import cycle, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.frame import FrameReader


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@settings(deadline=None, database=None)
@given(bodies=st.lists(st.binary(max_size=50), max_size=6), cuts=st.lists(st.integers(1, 30)))
def test_frames_are_the_same_for_any_chunks(bodies: list[bytes], cuts: list[int]) -> None:
    stream, reader, frames = framed(*bodies), FrameReader(), []
    for cut in [*cuts, len(stream) + 1]:
        frames += reader.feed(stream[:cut])
        stream = stream[cut:]
    assert [bytes(frame) for frame in frames] == bodies
    assert reader.held == 0


@pytest.mark.parametrize("sizes", [[1], [100], [1, 5_000], [1] * 100 + [70_000]])
def test_memory_is_proportional_to_received_bytes(sizes: list[int]) -> None:
    """For any chunk size: a TLS record may contain a single byte."""
    size, reader = 150_000, FrameReader()
    stream = framed(bytes(range(250)) * (size // 250))
    cuts, at, frames = islice(cycle(sizes), size), 0, []
    tracemalloc.start()
    try:
        for cut in cuts:
            frames += reader.feed(stream[at : at + cut])
            at += cut
            if at >= size // 2:
                break
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reader.held == at
    assert grown < 1.5 * at + 10_000
    (frame,) = reader.feed(stream[at:])
    assert frame == stream[4:]


def test_frame_in_one_chunk_is_not_copied() -> None:
    data = bytearray(framed(b"abc"))
    (frame,) = FrameReader().feed(data)  # type: ignore[arg-type]
    data[4] = ord("x")
    assert bytes(frame) == b"xbc"


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x7f\xff\xff\xff"])
def test_invalid_sizes_are_rejected(size: bytes) -> None:
    with pytest.raises(ProtocolError, match="limit is 104,857,600"):
        FrameReader().feed(size)


def test_limit_is_inclusive() -> None:
    assert FrameReader(limit=5).feed(framed(b"12345"))
    with pytest.raises(ProtocolError, match="limit is 5"):
        FrameReader(limit=5).feed(framed(b"123456"))


def test_invalid_size_after_valid_frames() -> None:
    reader = FrameReader()
    with pytest.raises(ProtocolError):
        reader.feed(framed(b"good") + b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    ("first", "named"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS alert"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS handshake"),
        (b"HTTP/1.1 400 Bad Request", "HTTP response"),
        (b"GET / HTTP/1.1", "HTTP request"),
    ],
)
def test_other_protocols_are_named(first: bytes, named: str) -> None:
    with pytest.raises(ProtocolError, match=named):
        FrameReader().feed(first)
