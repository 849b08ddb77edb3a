"""The query, micro-batch and run of the current task, which Spark passes in local properties.

The query's id comes from the checkpoint: it is stable across restarts, and a new checkpoint gets a
new id.
"""

from __future__ import annotations

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.spark.runtime import internals, worker_context
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES

_SESSION = "(frame.sparkSession)" if HAS_DATA_SOURCES else ""
"""Argument of `inheritable_thread_target`; in 3.5, it takes the function of a classic session."""


def current_micro_batch() -> tuple[str, str]:
    """Return the query's id and the micro-batch number for the task of this thread.

    Raises:
        TransactionError: Spark does not provide them, so the batch could not be recognized later.
    """
    query_id = internals.local_property(internals.QUERY_ID)
    batch = internals.local_property(internals.BATCH_ID)
    if not query_id or batch is None or not batch.isdecimal():
        raise TransactionError(
            "Spark does not pass the micro-batch to this task, as exactly-once writes require: "
            f"{internals.QUERY_ID} is {query_id}, {internals.BATCH_ID} is {batch}",
            hint="Write from foreachBatch with the option batchId.",
        )
    return query_id, batch


def current_query_id() -> str | None:
    """Return the query whose foreachBatch runs this thread's task; None in a batch job.

    Raises:
        TransactionError: the query is unknown, so two writes of one batchId could not be
            distinguished.
    """
    if worker_context.lacks_query():
        raise TransactionError(
            "foreachBatch writes with batchId in a thread that lacks the streaming query's "
            "properties, so exactly-once delivery cannot be guaranteed",
            hint="Start the thread with these properties: instead of function, pass "
            f"pyspark.inheritable_thread_target{_SESSION}(function) to the thread or executor.",
        )
    return internals.local_property(internals.QUERY_ID)


def current_run_id() -> str | None:
    """Return the query's run id for the task of this thread; every start has a new run id.

    With Spark Connect, the id of the run's session takes its place.

    Return None outside of a query, or if the user has set a different job group.
    """
    if not internals.local_property(internals.QUERY_ID):
        return worker_context.connect_query_session()
    return internals.run_id(internals.local_property(internals.JOB_GROUP))
