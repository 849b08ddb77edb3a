"""Reports of the first writes of a session contain the start time of Python workers."""

import json
import os
import subprocess
import sys
from pathlib import Path

DELAY_MS = 1_000
"""CPU time that each Python process uses before it runs, however fast the machine is."""
FIRST_WRITES = """
import json, time
from pyspark.sql import SparkSession
from spark_kafka_sink import EmbeddedBroker, last_report

settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
with EmbeddedBroker(topics={"events": 1}) as kafka:
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "events"}
    for _ in range(2):
        began = time.monotonic()
        frame = spark.range(1000).selectExpr("cast(id as string) as value")
        frame.write.format("kafkaprod").options(**options).mode("append").save()
        wall_ms = (time.monotonic() - began) * 1000
        report = last_report()
        times = (wall_ms, report.duration_ms, report.startup_ms, report.duration_max_ms)
        print(json.dumps([*times, str(report)]))
spark.stop()
"""


def test_only_the_first_write_starts_workers(tmp_path: Path) -> None:
    delay = f"import time\nwhile time.process_time() < {DELAY_MS / 1000}: pass\n"
    (tmp_path / "sitecustomize.py").write_text(delay)
    child = [sys.executable, "-c", FIRST_WRITES]
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths}
    done = subprocess.run(
        child, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    first, second = map(json.loads, done.stdout.splitlines())
    wall_ms, duration_ms, startup_ms, slowest_ms, text = first
    assert wall_ms > duration_ms > startup_ms + slowest_ms
    assert startup_ms > 3 * DELAY_MS, "planning, tasks and commit each start a worker"
    assert f"of which {startup_ms / 1000:,.1f} s Python worker start-up; then" in text
    assert second[2] == 0
    assert "start-up" not in second[-1]
