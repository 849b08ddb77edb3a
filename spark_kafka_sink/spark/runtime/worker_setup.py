"""What the sink changes in Python workers, and in the process that starts them."""

from __future__ import annotations

import gc
import os
import sys
from itertools import count
from typing import TYPE_CHECKING

from spark_kafka_sink.spark.runtime.internals import DAEMON, main_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

_WORKERS = (DAEMON, "pyspark.worker", "pyspark.sql.worker.")
"""Main modules of Spark's Python workers."""
_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
_LOADING_TASKS = 2
"""Number of tasks in a worker process that freeze newly loaded modules when they start. The second
task freezes the modules that the first task has loaded.
"""
_task_numbers = count()
"""Counts the tasks of this worker process."""


def freeze_loaded_modules() -> None:
    """In a Python worker, exclude everything loaded so far from garbage collection.

    Importing modules triggers collections, and `pyspark.daemon` runs one after each request. They
    would traverse every object in PySpark's modules, which takes tens of milliseconds.
    """
    if main_module() == DAEMON:
        gc.freeze()


def exclude_from_garbage_collection(tasks: Iterator[int] = _task_numbers) -> None:
    """Exclude everything loaded so far from garbage collection, at the start of a task.

    pyspark.daemon runs a garbage collection after every task, which takes tens of milliseconds
    because the collection traverses each object of every module. Memory is still freed, except for
    cycles among these objects.
    """
    from pyspark import TaskContext  # This module is loaded before PySpark is known to exist.

    if TaskContext.get() is not None and next(tasks) < _LOADING_TASKS:
        gc.freeze()


def hide_traceback() -> bool:
    """In a Python worker, make Spark report the current error without Python's traceback.

    Returns False in any other process. A worker exits after it has reported an error. Source:
    ``handle_worker_exception``, ``spark.sql.execution.pyspark.udf.hideTraceback.enabled`` (4.0 and
    newer).
    """
    is_worker = main_module().startswith(_WORKERS)
    if is_worker:
        os.environ[_HIDE_TRACEBACK] = "1"
    return is_worker


def use_this_python(context: SparkContext) -> None:
    """Run the Python workers of a local session with this Python, unless PYSPARK_PYTHON is set.

    PySpark would use the first `python3` in the PATH, which is a different Python if the
    environment of this Python is not activated. This is limited to local sessions, because
    executors of a cluster might not have a Python at this path.
    """
    if (context.master or "").startswith("local") and not os.environ.get("PYSPARK_PYTHON"):
        context.pythonExec = sys.executable
