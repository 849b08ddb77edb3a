"""Frames from bytes in any chunks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.broker.net.frame_buffer import FrameBuffer
from spark_kafka_sink.common.errors import ProtocolError

QUICK = settings(max_examples=200, deadline=None, database=None)


@pytest.mark.deep
@QUICK
@given(
    sizes=st.lists(st.sampled_from([0, 1, 30, 4000, 65_000, 70_000, 200_000]), max_size=8),
    data=st.data(),
)
def test_frames_are_reassembled(sizes: list[int], data: st.DataObject) -> None:
    frames = [bytes([number]) * size for number, size in enumerate(sizes)]
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    shared, buffer, got, at = memoryview(bytearray(50_000)), FrameBuffer(), [], 0
    while at < len(stream):
        room = buffer.room(shared)
        count = min(data.draw(st.integers(1, 90_000)), len(room), len(stream) - at)
        room[:count] = stream[at : at + count]
        got += buffer.add(room, count)
        at += count
    assert [bytes(frame) for frame in got] == frames


def test_invalid_sizes_are_rejected() -> None:
    buffer, shared = FrameBuffer(limit=1000), memoryview(bytearray(100))
    shared[:4] = (1001).to_bytes(4, "big")
    with pytest.raises(ProtocolError):
        buffer.add(shared, 4)
