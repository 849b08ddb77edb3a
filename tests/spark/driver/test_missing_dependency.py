"""Spark starts a Python in which the sink's dependencies are missing.

This happens if a script of a virtual environment runs in a checkout: Spark's Python finds the
package in the working directory.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HIDE_KIO = """
import sys

class HideKio:
    def find_spec(self, name, path=None, target=None):
        if name == "kio":
            raise ModuleNotFoundError("No module named 'kio'", name=name)

if any(argument.startswith("pyspark.") for argument in sys.orig_argv):
    sys.meta_path.insert(0, HideKio())
"""

WRITES = """
import sys

from pyspark.sql import SparkSession
from spark_kafka_sink import ConfigError, error_of, write

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
options = {"kafka.bootstrap.servers": "localhost:1", "topic": "t", "preflight": "off"}
rows = spark.range(1).selectExpr("'a' AS value")
try:
    if sys.argv[1] == "write":
        write(rows, options)
    else:
        rows.write.format("kafkaprod").options(**options).mode("append").save()
except Exception as exception:
    error = error_of(exception)
    print(type(error).__name__, error)
spark.stop()
"""


@pytest.mark.parametrize("method", ["format", "write"])
def test_error_names_the_module_and_sparks_python(method: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDE_KIO)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths}
    child = [sys.executable, "-c", WRITES, method]
    done = subprocess.run(
        child, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    expected = (
        "ConfigError the Python interpreter that Spark starts does not have the module kio. Set "
        "PYSPARK_PYTHON, before the driver starts, to a Python with spark-kafka-sink on the driver "
        f"and all executors, or install it for {sys.executable}, which Spark uses here."
    )
    assert done.stdout.splitlines() == [expected]
