"""Which micro-batch of which query a task belongs to, as Spark's local properties tell it.

The query's id comes from the checkpoint: it stays over restarts, and a new checkpoint has a new
one.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.spark.session_conf import BATCH_ID, QUERY_ID, setting


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch: the query's id and the number that Spark gives the batch."""

    query_id: str
    batch: str


def current_micro_batch() -> MicroBatch:
    """Of the task that runs in this thread.

    Raises:
        TransactionError: Spark does not tell, so that the batch could not be known again.
    """
    query_id, batch = setting(QUERY_ID), setting(BATCH_ID)
    if not query_id or batch is None or not batch.isdecimal():
        raise TransactionError(
            "Spark tells this task no micro-batch, so exactly once can't be kept: "
            f"{QUERY_ID} is {query_id}, {BATCH_ID} is {batch}",
            hint="Write from foreachBatch with the option batchId.",
        )
    return MicroBatch(query_id, batch)
