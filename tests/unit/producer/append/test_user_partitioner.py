"""A user's partitioner: its arguments, and the errors if it fails."""

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED
from tests.unit.producer.append.partitioning import (
    assign,
    partitioner,
    partitions,
    rows,
    targets_of,
)

NAME = "spread_by_test"


@pytest.fixture
def module() -> Iterator[ModuleType]:
    """Return a module that the option can name."""
    user_module = ModuleType(NAME)
    sys.modules[NAME] = user_module
    yield user_module
    del sys.modules[NAME]


def spread(module: ModuleType, function: Callable[..., Any], *counts: int, **columns: Any) -> Any:
    module.spread = function  # type: ignore[attr-defined]
    return assign(rows(**columns), counts or (5,), partitioner=f"{NAME}:spread")


def failure(module: ModuleType, answer: Any) -> str:
    with pytest.raises(ColumnError) as caught:
        spread(module, lambda *_: answer, count=3)
    assert caught.value.topic == "a"
    return str(caught.value)


@pytest.mark.parametrize("as_arrow", [False, True])
def test_rows_are_assigned_by_the_function(module: ModuleType, as_arrow: bool) -> None:
    def function(key: Any, value: pa.BinaryArray, count: int) -> Any:
        assert key.to_pylist() == [b"x", None, b"y"]
        assert value.to_pylist() == [b"v"] * 3
        chosen = np.array([count - 1, 0, 2], np.int32)
        return pa.array(chosen) if as_arrow else chosen

    assert partitions(spread(module, function, count=3, keys=[b"x", None, b"y"])) == [4, 0, 2]


def test_minus_one_is_handled_like_a_row_without_key(module: ModuleType) -> None:
    keys: list[bytes | None] = [b"a", b"b", b"c"]
    answer = np.array([UNASSIGNED, 4, UNASSIGNED], np.int32)
    route = spread(module, lambda *_: answer, count=3, keys=keys)
    assert partitions(route) == [UNASSIGNED, 4, UNASSIGNED]
    route = spread(
        module,
        lambda _, value, __: np.full(len(value), -1, np.int32),
        5,
        9,
        count=3,
        keys=keys,
        topic_indexes=[1, 0, 1],
    )
    assert targets_of(route) == [("b", UNASSIGNED), ("a", UNASSIGNED), ("b", UNASSIGNED)]


def test_key_is_none_without_key_column(module: ModuleType) -> None:
    def function(key: Any, value: pa.BinaryArray, count: int) -> Any:
        assert key is None
        return np.zeros(len(value), np.int32)

    assert partitions(spread(module, function, count=2)) == [0, 0]


def test_rows_with_partition_are_not_passed(module: ModuleType) -> None:
    def function(key: Any, value: pa.BinaryArray, count: int) -> Any:
        assert key.to_pylist() == [b"b", b"d"]
        return np.array([1, 2], np.int32)

    keys: list[bytes | None] = [b"a", b"b", b"c", b"d"]
    route = spread(module, function, count=4, keys=keys, partitions=[4, None, 0, None])
    assert partitions(route) == [4, 1, 0, 2]


def test_function_is_called_per_topic_with_its_partition_count(module: ModuleType) -> None:
    calls = []

    def function(key: Any, value: pa.BinaryArray, count: int) -> Any:
        calls.append((key.to_pylist(), count))
        return np.full(len(value), count - 1, np.int32)

    keys: list[bytes | None] = [b"1", b"2", b"3"]
    route = spread(module, function, 5, 9, count=3, keys=keys, topic_indexes=[1, 0, 1])
    assert targets_of(route) == [("b", 8), ("a", 4), ("b", 8)]
    assert calls == [([b"2"], 5), ([b"1", b"3"], 9)]


def test_function_may_be_an_attribute_of_a_class(module: ModuleType) -> None:
    class Namespace:
        @staticmethod
        def spread(*columns: Any) -> Any:
            return np.full(len(columns[1]), 3, np.int32)

    module.Ours = Namespace  # type: ignore[attr-defined]
    assert partitions(assign(rows(2), (5,), partitioner=f"{NAME}:Ours.spread")) == [3, 3]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (np.zeros(3, np.int64), "returned int64; it must return a NumPy or Arrow int32 array"),
        ([0, 0, 0], "returned list; it must return a NumPy or Arrow int32 array"),
        (None, "returned NoneType"),
        (np.zeros(2, np.int32), "returned shape (2,) for 3 rows"),
        (np.zeros((3, 1), np.int32), "returned shape (3, 1) for 3 rows"),
        (np.array([0, 5, 0], np.int32), "returned partition 5 for its row 1"),
        (np.array([0, 4, -2], np.int32), "returned partition -2 for its row 2"),
        (pa.array([0, None, 1], pa.int32()), "returned nulls"),
        (pa.array([0, 0, 0], pa.int16()), "returned int16"),
    ],
)
def test_invalid_result_is_reported(module: ModuleType, answer: Any, said: str) -> None:
    text = failure(module, answer)
    assert f"the partitioner {NAME}:spread {said}" in text
    assert "[topic=a]" in text


def test_exception_is_named_and_chained(module: ModuleType) -> None:
    def function(*_: Any) -> Any:
        raise ZeroDivisionError("by nothing")

    with pytest.raises(ColumnError, match="raised ZeroDivisionError: by nothing") as caught:
        spread(module, function, count=1)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module_here:spread", "No module named 'no_such_module_here'"),
        (f"{NAME}:missing", "AttributeError"),
        (f"{NAME}:__name__", "is not callable"),
    ],
)
def test_name_that_does_not_resolve(module: ModuleType, name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        partitioner(partitioner=name)
    assert name in str(caught.value)
