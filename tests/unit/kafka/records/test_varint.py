"""Varints with more bits than the number has."""

import numpy as np
import pytest

from spark_kafka_sink.kafka.records.varint import INT_BYTES, LONG_BYTES, read_varint, read_varints


@pytest.mark.parametrize(("longest", "lowest"), [(INT_BYTES, -(2**31)), (LONG_BYTES, -(2**63))])
def test_bits_beyond_the_number_are_ignored_as_in_java(longest: int, lowest: int) -> None:
    data = b"\xff" * (longest - 1) + b"\x7f"
    assert read_varint(data, 0, longest) == (lowest, longest)
    buffer = np.frombuffer(data + bytes(LONG_BYTES), np.uint8)
    values, after = read_varints(buffer, np.array([0]), longest)
    assert (values.tolist(), after.tolist()) == ([lowest], [longest])
