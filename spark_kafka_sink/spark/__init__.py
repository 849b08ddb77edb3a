"""Spark's Data Source V2 API on top of the producer: `format("kafkaprod")`.

On the driver, `datasource` creates a writer from the options and the schema. The writer is pickled
to the tasks, which write Arrow batches, and commits or aborts on the driver.

A writer's `commit` and `abort` run in a Python worker on the driver. Both can find the folder of
the files that Spark ships. Spark creates this folder for each application (with Spark Connect, for
each Spark session) and deletes it when the application or session ends. The latest reports are
stored in that folder.

In reading order:

- `datasource`: the data source that Spark loads
- `write`: `write`, which plans and commits a write in the caller's process
- `write_plan`: planning of a write: configuration, schemas, checks
- `table_options`: the options of SQL tables, which are the defaults of writes
- `displayed_secrets`: warnings about options with secrets that Spark would show
- `schema`: the columns that a DataFrame must have, and the schemas by which they are serialized
- `writers`: a task's write, commit and abort, called by Spark or by `write`
- `rows`: Spark's Arrow batches become the producer's rows
- `exactly_once`: tasks, planning, commit and abort of deliveryGuarantee=exactly-once
- `reports`: reports, progress and errors, from the tasks to files, logs and the caller
- `runtime`: what the sink knows of Spark: releases, internals, workers, sessions, errors
- `arrow_batches`: the limit of the Arrow batches of `write`
- `micro_batches`: `micro_batch_writer`, for `foreachBatch`
- `registration`: registers the format with a Spark session
- `warm_up`: starts the Python workers of a Spark session
- `kafka_partitions`: repartitions a DataFrame so that each Kafka partition is in one task
- `pyspark_backports`: functions that PySpark before 4.1 does not have
"""

from spark_kafka_sink.spark.runtime.log_lines import install as _show_origin
from spark_kafka_sink.spark.runtime.pyspark_requirement import missing_pyspark_error, reject_older
from spark_kafka_sink.spark.runtime.worker_setup import (
    freeze_loaded_modules as _freeze_loaded_modules,
)

try:
    from pyspark import __version__ as _version
except ModuleNotFoundError as _error:
    if _error.name != "pyspark":
        raise
    raise missing_pyspark_error() from None
reject_older(_version)
_show_origin()
_freeze_loaded_modules()
