"""The integers that Spark puts into given partitions."""

import pytest

from spark_kafka_sink.spark.pyspark_backports import numbers_of_partitions


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100, 1000])
def test_numbers_of_partitions(count: int) -> None:
    numbers = numbers_of_partitions(count)
    assert len(set(numbers)) == count
    assert [spark_partition(number, count) for number in numbers] == list(range(count))


def spark_partition(number: int, count: int) -> int:
    """Return the partition of an integer, with Murmur3 in Python's integers."""

    def rotated(value: int, bits: int) -> int:
        return (value << bits | value >> 32 - bits) & 0xFFFFFFFF

    mixed = rotated(number * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
    code = (rotated(42 ^ mixed, 13) * 5 + 0xE6546B64 & 0xFFFFFFFF) ^ 4
    code = (code ^ code >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    code = (code ^ code >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    code ^= code >> 16
    return (code - (1 << 32) if code >> 31 else code) % count
