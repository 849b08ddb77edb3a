"""The modules that `warm_up`, or else a worker's first task, imports.

Importing them loads everything that a worker needs to plan, write or commit.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable

_PACKAGE = "spark_kafka_sink."
_WRITERS = ("spark.writers.data_source_writers",) if HAS_DATA_SOURCES else ()
PLANNING = (
    "spark.write_plan",
    "config.config_builder",
    "diagnostics.preflight",
)
"""Modules that a worker needs to plan a write."""
FIRST_TASK = ("spark.rows.arrow_gathering", "spark.rows.rows_from_arrow", "producer.session_pool")
"""Modules that a worker imports when its first task starts."""
TASK = (*_WRITERS, "spark.writers.task_writer", "spark.writers.commit_messages", *FIRST_TASK)
"""Modules that a worker needs to write."""
COMMIT = (
    *_WRITERS,
    "spark.writers.write_completion",
    "spark.writers.commit_messages",
    "spark.reports.publication",
    "config.sink_config",
)
"""Modules that a worker needs to commit."""


def load(modules: Iterable[str]) -> None:
    """Import modules of this package, named without the package."""
    for module in modules:
        import_module(_PACKAGE + module)
