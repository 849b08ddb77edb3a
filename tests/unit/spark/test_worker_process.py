"""What lives in a worker process before its first task is not looked at after each of its tasks."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from pyspark import TaskContext

from spark_kafka_sink.spark.writer import spare_garbage_collections

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.fixture
def _in_a_task() -> Iterator[None]:
    TaskContext._getOrCreate()
    yield
    TaskContext._setTaskContext(None)


@pytest.mark.usefixtures("_thawed", "_in_a_task")
def test_the_first_task_of_a_process_freezes_what_is_loaded() -> None:
    spare_garbage_collections()
    frozen = gc.get_freeze_count()
    assert frozen
    later = [[number] for number in range(100)]
    spare_garbage_collections()
    assert gc.get_freeze_count() < frozen + len(later)


@pytest.mark.usefixtures("_thawed")
def test_nothing_is_frozen_outside_of_a_task() -> None:
    spare_garbage_collections()
    assert not gc.get_freeze_count()
