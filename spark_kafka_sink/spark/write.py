"""`write`: write a DataFrame with the task of `format("kafkaprod")`, but without its data source.

The caller's process plans, commits and publishes the write; Spark only starts the workers of the
tasks. The task writer runs in `DataFrame.mapInArrow`, and the rows of the result are the tasks'
messages: for each task, of exactly the attempt that Spark has accepted.

If the job fails, Spark returns no rows. With a classic session, an accumulator then has the
messages of the finished tasks. An exactly-once write also aborts the transactions of attempts that
left no message, because planning has chosen the prefix of their ids.
"""

from __future__ import annotations

import uuid
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from threading import Lock, Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.util import inheritable_thread_target

from spark_kafka_sink.common.arguments import FRAME, check_argument, options_as_text
from spark_kafka_sink.common.errors import ConfigError, KafkaProdError
from spark_kafka_sink.spark.arrow_batches import without_measuring
from spark_kafka_sink.spark.displayed_secrets import warn_of_displayed_secrets
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin, batch_number
from spark_kafka_sink.spark.rows.plain_names import with_plain_names
from spark_kafka_sink.spark.runtime import session_checks
from spark_kafka_sink.spark.runtime.internals import BATCH_ID, JOB_GROUP, QUERY_ID, run_id
from spark_kafka_sink.spark.runtime.spark_errors import error_of
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES
from spark_kafka_sink.spark.runtime.worker_setup import use_this_python
from spark_kafka_sink.spark.schema.stream_start import StreamStart
from spark_kafka_sink.spark.table_options import merge_default_options
from spark_kafka_sink.spark.write_plan import plan_batch
from spark_kafka_sink.spark.writers import map_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark import SparkContext
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.spark.writers.write_completion import WriteJob

_finished: WeakKeyDictionary[SparkContext, map_task.Finished] = WeakKeyDictionary()
"""The accumulator of each application: PySpark never removes accumulators. Guarded by `_lock`."""
_lock = Lock()
_CANCEL_INTERVAL_S = 0.5
"""Seconds after which the jobs of an interrupted write are cancelled again."""


def write(df: DataFrame, options: Mapping[str, Any]) -> DeliveryReport:
    """Write a DataFrame to Kafka, and return the delivery report.

    Options, columns and guarantees are those of `df.write.format("kafkaprod")`. This process plans
    and commits the write, instead of Python workers of the driver. A Spark session's first write
    and short micro-batches therefore take less time, and errors are raised as they occurred::

        report = write(events, {"kafka.bootstrap.servers": "localhost:9092", "topic": "events"})

    It works in any thread, inside `foreachBatch`, and with Spark Connect if the client can connect
    to Kafka. Ctrl-C cancels the job and aborts the write.

    Args:
        df: a DataFrame that is not a stream.
        options: the options of `format("kafkaprod")`, with names in any case.

    Raises:
        ConfigError: an argument or an option is wrong.
        ColumnError: the DataFrame violates the column roles.
        KafkaProdError: the write failed; the cause is Spark's exception.
        PySparkException: the job failed for a reason outside of this package.
    """
    check_argument(
        "write(df, options)",
        df,
        FRAME,
        ("mapInArrow", "schema", "isStreaming"),
        "Pass the DataFrame first, without .write; for pandas, use spark.createDataFrame(df).",
    )
    user_options = options_as_text("write(df, options)", options)
    spark: SparkSession | ConnectSession = df.sparkSession
    session_checks.check_session("write(df, options)", spark)
    session_checks.reject_wheel(__file__)
    session_checks.require_pandas("write(df, options)")
    if df.isStreaming:
        raise ConfigError(
            "write(df, options) writes batches, and the DataFrame is a stream",
            hint="Use df.writeStream.foreachBatch(micro_batch_writer(options)).start().",
        )
    if isinstance(spark, SparkSession):
        use_this_python(spark.sparkContext)
    else:  # The event log contains the request, and with it the options of the tasks.
        warn_of_displayed_secrets(merge_default_options(df.schema, user_options))
    job = plan_batch(user_options, df.schema, _write_origin(spark), _start_of(spark))
    messages = _run_tasks(df, job)
    try:
        return job.completion.commit(messages)
    except BaseException as error:
        # The decision log determines whether this aborts the write or completes its commit.
        job.completion.abort(messages, error=error if isinstance(error, KafkaProdError) else None)
        raise


def _write_origin(spark: SparkSession | ConnectSession) -> WriteOrigin:
    """Return the identity of the write, with its query within foreachBatch.

    Spark Connect hides the query; its tasks report it.
    """
    if not isinstance(spark, SparkSession):
        return WriteOrigin.of_write()
    query, batch = map(spark.sparkContext.getLocalProperty, (QUERY_ID, BATCH_ID))
    return WriteOrigin.of_write(query or "", batch_number(batch))


def _start_of(spark: SparkSession | ConnectSession) -> StreamStart | None:
    """Return the start of the query within foreachBatch; None elsewhere, and with Connect."""
    if not isinstance(spark, SparkSession) or not spark.sparkContext.getLocalProperty(QUERY_ID):
        return None
    run = run_id(spark.sparkContext.getLocalProperty(JOB_GROUP))
    return StreamStart(run) if run else None


def _run_tasks(df: DataFrame, job: WriteJob) -> list[object]:
    """Run the tasks and return their commit messages. If the job fails, abort the write."""
    spark: SparkSession | ConnectSession = df.sparkSession
    write_id = uuid.uuid4().hex
    with _collect_messages(spark, write_id) as (finished, messages), without_measuring(df):
        arguments = job.task, write_id, finished
        frame = with_plain_names(df)
        names = None if frame is df else df.columns
        try:
            rows = _collect_rows(frame, partial(map_task.run_task, *arguments, names=names))
            if not rows:  # For example, Spark has found that a filter rejects every row.
                row = spark.range(0, 1, 1, 1)
                rows = _collect_rows(row, partial(map_task.run_task_without_rows, *arguments))
        except BaseException as raised:
            error = error_of(raised) if isinstance(raised, Exception) else None
            job.completion.abort([*map_task.unpickle_messages(messages), None], error=error)
            if error is None:
                raise
            raise error from raised
    return map_task.unpickle_messages(row.message for row in rows)


@contextmanager
def _collect_messages(
    spark: SparkSession | ConnectSession, write_id: str
) -> Iterator[tuple[map_task.Finished | None, list[bytes]]]:
    """Yield the application's accumulator, and the list of this write's commit messages in it."""
    if not isinstance(spark, SparkSession):
        yield None, []
        return
    with _lock:
        context = spark.sparkContext
        finished = _finished.get(context)
        if finished is None:
            finished = _finished[context] = context.accumulator({}, map_task.MessagesByWrite())
    messages = finished.value.setdefault(write_id, [])
    try:
        yield finished, messages
    finally:
        del finished.value[write_id]


def _collect_rows(df: DataFrame, task: Any) -> list[Row]:
    """Run a task for each partition and return the rows. Ctrl-C cancels the job."""
    frame = df.mapInArrow(task, map_task.SCHEMA)
    spark: SparkSession | ConnectSession = df.sparkSession
    if current_thread() is not main_thread():  # Only the main thread receives KeyboardInterrupt.
        return frame.collect()
    tag = f"kafkaprod-{uuid.uuid4().hex}"
    if isinstance(spark, SparkSession):
        return _collect_in_thread(frame, spark, tag)
    spark.addTag(tag)
    try:
        return frame.collect()
    except KeyboardInterrupt:
        spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)


def _collect_in_thread(frame: DataFrame, spark: SparkSession, tag: str) -> list[Row]:
    """Collect in another thread, with the local properties of this one.

    A KeyboardInterrupt in the thread that waits for the JVM's response leaves this response on the
    thread's connection, where the next call would read it.
    """
    future: Future[list[Row]] = Future()

    def collect() -> None:
        try:
            future.set_result(frame.collect())
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            future.set_exception(error)

    context = spark.sparkContext
    context.addJobTag(tag)
    try:
        # In 3.5, a classic session has no tags, and the function does not accept it.
        inherit = inheritable_thread_target(spark) if HAS_DATA_SOURCES else None
        target = (inherit or inheritable_thread_target)(collect)
        thread = Thread(target=target, name="kafkaprod-write", daemon=True)
        try:
            thread.start()
            return future.result()
        except KeyboardInterrupt:
            while thread.is_alive():  # Spark may submit the job later, or another one.
                context.cancelJobsWithTag(tag)
                thread.join(_CANCEL_INTERVAL_S)
            raise
    finally:
        context.removeJobTag(tag)
