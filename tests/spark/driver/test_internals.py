"""A write without one of the probes of Spark's internals succeeds."""

import json
import os
from pathlib import Path

import pytest

from spark_kafka_sink.spark.runtime.internals import PROBES
from tests.spark.support.probes_child import ROWS, SITE, WRITES
from tests.support.python import run_python

FAILS = {("local_property", "exactly-once-stream"): "TransactionError"}
"""Without its query and its number, a micro-batch could not be recognized after a restart."""


@pytest.mark.deep
def test_write_without_each_probe(tmp_path: Path) -> None:
    removed = tmp_path / "removed"
    removed.touch()
    (tmp_path / "sitecustomize.py").write_text(SITE.format(removed=str(removed)))
    paths = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = run_python(
        "-m", "tests.spark.support.probes_child", tmp_path, env=environment, timeout_s=590
    )
    assert done.returncode == 0, done.stderr[-4000:]
    outcomes = dict(map(json.loads, done.stdout.splitlines()))
    assert outcomes == {
        name: {kind: FAILS.get((name, kind), ROWS) for kind in WRITES} for name in ["", *PROBES]
    }
