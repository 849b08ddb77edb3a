"""Objects that exist before a worker's first task are excluded from garbage collection."""

import gc
from collections.abc import Iterator
from itertools import count

import pytest
from pyspark import TaskContext

from spark_kafka_sink.spark.runtime.worker_setup import exclude_from_garbage_collection


@pytest.fixture
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.fixture
def in_a_task() -> Iterator[None]:
    TaskContext._getOrCreate()
    yield
    TaskContext._setTaskContext(None)


@pytest.mark.usefixtures("thawed", "in_a_task")
def test_first_two_tasks_freeze_loaded_objects() -> None:
    kept: list[list[list[int]]] = []
    tasks, frozen = count(), []
    for _ in range(4):
        kept.append([[] for _ in range(100)])
        exclude_from_garbage_collection(tasks)
        frozen.append(gc.get_freeze_count())
    assert 0 < frozen[0] <= frozen[1] - 100
    assert frozen[3] <= frozen[1]


@pytest.mark.usefixtures("thawed")
def test_nothing_is_frozen_outside_of_a_task() -> None:
    exclude_from_garbage_collection(count())
    assert not gc.get_freeze_count()
