"""Which micro-batch of which query a task belongs to, as Spark's local properties tell it.

The query's id comes from the checkpoint: it stays over restarts, and a new checkpoint has a new
one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.spark.session_conf import BATCH_ID, JOB_GROUP, QUERY_ID, setting

_RUN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


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


def current_run() -> str | None:
    """The id of the query's run that the task in this thread belongs to; each start has another.

    None outside of a query, or if the user has given the jobs another group: one that is the same
    after a restart does not tell runs apart.
    """
    group = setting(JOB_GROUP)
    if not setting(QUERY_ID) or group is None or not _RUN_ID.fullmatch(group):
        return None
    return group
