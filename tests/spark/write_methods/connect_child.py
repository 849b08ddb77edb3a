"""Run write methods with Spark Connect: `connect_child FOLDER SERVERS SECURED NAME ...`.

SECURED is a JSON object for a secured broker: servers, options and the file that they refer to.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES
from tests.spark.write_methods.batch import BATCH
from tests.spark.write_methods.early_worker import write_python
from tests.spark.write_methods.pipelines import CONNECT
from tests.spark.write_methods.secured import SECURED
from tests.spark.write_methods.sql import SQL
from tests.spark.write_methods.stream import STREAMS
from tests.spark.write_methods.write_method import Write, run_method
from tools.support.spark_session import connect


def main(folder: Path, servers: str, secured: dict[str, Any], names: set[str]) -> None:
    """Run the named write methods and write their errors to `errors.json`."""
    os.environ["PYSPARK_PYTHON"] = write_python(folder / "python")
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if HAS_DATA_SOURCES:  # The server then uses a free port; in 3.5, this needs numpy 1.
        os.environ["SPARK_TESTING"] = "1"
    os.chdir(folder)
    spark = connect()
    errors = {
        method.name: run_method(
            method, Write(spark, servers, f"connect-{method.name}", folder / method.name)
        )
        for method in (*BATCH, *SQL, *STREAMS)
        if method.name in names
    }
    spark.addArtifact(secured["file"], file=True)
    for method in (method for method in SECURED if method.name in names):
        topic, own = f"connect-{method.name}", secured["options"]
        write = Write(spark, secured["servers"], topic, folder / method.name, own)
        errors[method.name] = run_method(method, write)
    for method in (method for method in CONNECT if method.name in names):
        write = Write(spark, servers, f"connect-{method.name}", folder / method.name)
        errors[method.name] = run_method(method, write)
    (folder / "errors.json").write_text(json.dumps(errors))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), set(sys.argv[4:]))
