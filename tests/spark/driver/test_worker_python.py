"""A local job started with the Python of a virtual environment that is not activated."""

import os
from pathlib import Path

import pytest

from tests.support.python import run_python
from tools.support.spark_session import KRB5_CONFIG

WAIT_S = 300
JOB = """
from pyspark.sql import SparkSession
from spark_kafka_sink import EmbeddedBroker, register, write

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
with EmbeddedBroker(topics={"t": 1}) as kafka:
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "t"}
    rows = spark.range(3).selectExpr("string(id) AS value")
    %s
    print("written", sum(kafka.end_offsets("t")))
spark.stop()
"""
FORMAT = "register(spark); rows.write.format('kafkaprod').options(**options).mode('append').save()"


@pytest.mark.parametrize("statement", [FORMAT, "write(rows, options)"])
def test_job_runs_the_python_of_its_driver(tmp_path: Path, statement: str) -> None:
    """The `python3` on the PATH cannot start."""
    job, other = tmp_path / "job.py", tmp_path / "python3"
    job.write_text(JOB % statement)
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    variables = {name: text for name, text in os.environ.items() if not name.startswith("PYSPARK_")}
    variables.pop(KRB5_CONFIG, None)
    variables["PATH"] = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    ended = run_python(job, timeout_s=WAIT_S, env=variables, cwd=tmp_path)
    assert "written 3" in ended.stdout, ended.stderr[-3000:]
