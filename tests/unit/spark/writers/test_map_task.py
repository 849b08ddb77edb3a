"""The function that `write` runs in the tasks."""

import sys
import traceback
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any

import pytest

from spark_kafka_sink import ConfigError
from spark_kafka_sink.spark.writers.map_task import run_task


@pytest.mark.parametrize(
    ("module", "error", "hides"),
    [
        ("pyspark.daemon", ConfigError("wrong"), True),
        ("pyspark.daemon", ValueError("a fault"), False),
        ("users.job", ConfigError("wrong"), False),
    ],
)
def test_package_errors_in_workers_have_only_frames_of_spark(
    module: str, error: Exception, hides: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise error from KeyError()

    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(module, None))
    task: Any = SimpleNamespace(run=fail)
    with pytest.raises(type(error)) as caught:
        next(run_task(task, "id", None, iter(())))
    shown = "".join(traceback.format_exception(caught.value))
    assert ("in fail" not in shown) == ("KeyError" not in shown) == hides
