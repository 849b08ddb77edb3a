"""Write without each probe of `spark.runtime.internals` in turn: `probes_child FOLDER`.

A `sitecustomize.py` in FOLDER, which each Python process of Spark loads, makes the probe fail whose
name is in the file `removed`. The outcome of each write is printed as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_kafka_sink import DeliveryReport, EmbeddedBroker, error_of, micro_batch_writer
from spark_kafka_sink.spark.runtime.internals import PROBES
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ROWS = 30
SITE = """
from dataclasses import replace
from pathlib import Path
from spark_kafka_sink.spark.runtime.internals import PROBES

def failing(name, read):
    def probe(*args, **kwargs):
        if Path({removed!r}).read_text() == name:
            raise RuntimeError(name)
        return read(*args, **kwargs)
    return probe

for name, probe in list(PROBES.items()):
    PROBES[name] = replace(probe, read=failing(name, probe.read))
"""


def main(folder: Path) -> None:
    """Write with all probes, and without each of them."""
    (folder / "input").mkdir()
    (folder / "input" / "0.txt").write_text("\n".join(map(str, range(ROWS))))
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = spark.config("spark.driver.host", "127.0.0.1").getOrCreate()
    with EmbeddedBroker(auto_create_topics=True) as broker:
        for name in ["", *PROBES]:
            (folder / "removed").write_text(name)
            topic = name or "all-probes"
            written = {
                kind: _outcome(write, session, _options(broker, folder, topic, kind))
                for kind, write in WRITES.items()
            }
            print(json.dumps([name, written]))
    session.stop()


def _options(broker: EmbeddedBroker, folder: Path, topic: str, kind: str) -> dict[str, str]:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": f"{topic}-{kind}",
        "reportPath": str(folder / topic / kind),
        "checkpointLocation": str(folder / f"checkpoint-{topic}-{kind}"),
    }
    if kind.startswith("exactly-once"):
        options |= {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": f"{topic}-{kind}"}
    return options


def _outcome(
    write: Callable[[DataFrame, dict[str, str]], DataStreamWriter],
    spark: SparkSession,
    options: dict[str, str],
) -> int | str:
    """Return the number of records, or the class of the error."""
    rows = spark.readStream.text(f"{Path(options['reportPath']).parents[1]}/input")
    query = write(rows, options).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
    except StreamingQueryException as exception:
        return type(error_of(exception)).__name__
    return DeliveryReport.read(f"{options['reportPath']}/batch-0.json").persisted


def _stream(rows: DataFrame, options: dict[str, str]) -> DataStreamWriter:
    return rows.writeStream.format("kafkaprod").options(**options)


def _micro_batches(rows: DataFrame, options: dict[str, str]) -> DataStreamWriter:
    writer = rows.writeStream.option("checkpointLocation", options.pop("checkpointLocation"))
    return writer.foreachBatch(micro_batch_writer(options))


WRITES = {
    **({"stream": _stream, "exactly-once-stream": _stream} if HAS_DATA_SOURCES else {}),
    "micro-batches": _micro_batches,
    "exactly-once-micro-batches": _micro_batches,
}

if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    main(Path(sys.argv[1]))
