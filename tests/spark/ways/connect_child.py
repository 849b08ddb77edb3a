"""Tries ways to write in a Spark Connect session: `connect_child FOLDER SERVERS SECURED WAY ...`.

SECURED says of a secured broker, as JSON: servers, options, and a file that they name.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.ways.batch import BATCH
from tests.spark.ways.early_worker import write_python
from tests.spark.ways.pipelines import CONNECT
from tests.spark.ways.shipped import SECURED
from tests.spark.ways.sql import SQL
from tests.spark.ways.stream import STREAMS
from tests.spark.ways.way import Write, attempt


def main(folder: Path, servers: str, secured: dict[str, Any], names: set[str]) -> None:
    """Write by every way named, and put what each said into `errors.json`."""
    os.environ["PYSPARK_PYTHON"] = write_python(folder / "python")
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_TESTING"] = "1"  # The server takes a free port then, not always 15002.
    os.chdir(folder)
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    errors = {
        way.name: attempt(way, Write(spark, servers, f"connect-{way.name}", folder / way.name))
        for way in (*BATCH, *SQL, *STREAMS)
        if way.name in names
    }
    spark.addArtifact(secured["file"], file=True)
    for way in (way for way in SECURED if way.name in names):
        topic, own = f"connect-{way.name}", secured["options"]
        write = Write(spark, secured["servers"], topic, folder / way.name, own)
        errors[way.name] = attempt(way, write)
    for way in (way for way in CONNECT if way.name in names):
        write = Write(spark, servers, f"connect-{way.name}", folder / way.name)
        errors[way.name] = attempt(way, write)
    (folder / "errors.json").write_text(json.dumps(errors))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), set(sys.argv[4:]))
