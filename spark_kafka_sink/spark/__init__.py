"""Spark's Data Source V2 API on top of the producer: `format("kafkaprod")`.

On the driver, `datasource` creates a writer from the options and the schema. The writer is pickled
to the tasks, which write Arrow batches, and commits or aborts on the driver.

A writer's `commit` and `abort` run in a Python worker on the driver. Both can find the folder of
the files that Spark ships. Spark creates this folder for each application (with Spark Connect, for
each session) and deletes it when the application or session ends. The latest reports are stored in
that folder.

In reading order:

- `datasource`: the data source that Spark loads, and the writer that starts Python workers before a
  session's first write
- `write_plan`: planning of a write: options of SQL tables, warnings about secrets, checks
- `dataframe_schema`: the columns that a DataFrame must have
- `selection`: the columns that are serialized as key and value
- `format_plans`: the schemas of key and value: derived, set by an option, or from a registry
- `writer`: a task's write, commit and abort
- `data_source_writers`: the writers of `format("kafkaprod")` for batches and micro-batches
- `slices`: cuts Arrow batches into parts that are encoded at once
- `rows_from_arrow`: converts Spark's Arrow batches to the producer's rows
- `row_checks`: the errors of the rows of a batch
- `serialization`: serializes columns as JSON, Avro or Protobuf
- `expected`: converts a frame's rows to what a consumer would decode, for tests
- `commit_messages`: the commit messages of tasks, and their merged report
- `publication`: logs a write's summary, writes its report, and exports its metrics
- `exactly_once_task`: tasks of deliveryGuarantee=exactly-once, which leave transactions open
- `transaction_timeouts`: the timeout of the tasks' transactions
- `exactly_once_driver`: planning, commit and abort of exactly-once writes
- `internals`: what the sink reads from Spark's internals, and what happens without it
- `preloading`: the modules that `warm_up` imports
- `spark_releases`: differences between PySpark releases
- `worker_context`: settings and shipped files that are available to a Python worker
- `continuous_processing`: rejects streams whose rows Spark would drop
- `write_origin`: the identity of a write
- `abort_files`: files that pass errors and plans to `abort`
- `report_folder`: folders for the reports of an application, a session and a stream
- `retention`: limit the number of files that a stream writes
- `last_report`: the latest report, also for clients of Spark Connect
- `session_reports`: a data source that reads the reports of a Spark Connect session
- `task_progress`: the progress of a task as a datagram, and the thread that sends it
- `write_progress`: the progress of a running write on the driver
- `write`: `write`, which plans and commits a write in the caller's process
- `arrow_batches`: the limit of the Arrow batches of `write`
- `map_task`: the function that `write` runs in the tasks
- `micro_batches`: `micro_batch_writer`, for `foreachBatch`
- `registration`: registers the format with a session
- `warm_up`: starts the Python workers of a session
- `sessions`: checks of the session that is passed to a public function
- `spark_errors`: converts exceptions of Spark to errors of this package
- `kafka_partitions`: repartitions a DataFrame so that each Kafka partition is in one task
- `partition_functions`: functions of `kafka_partitions` that PySpark before 4.1 does not have
- `log_lines`: the format of log lines in Spark's Python workers
"""

from spark_kafka_sink.common.optional_dependencies import missing, reject_older
from spark_kafka_sink.spark.internals import freeze_loaded_modules as _freeze_loaded_modules
from spark_kafka_sink.spark.log_lines import install as _show_origin

try:
    from pyspark import __version__ as _version
except ModuleNotFoundError as _error:
    if _error.name != "pyspark":
        raise
    raise missing() from None
reject_older(_version)
_show_origin()
_freeze_loaded_modules()
