"""The reasons why a batch must not be written, each with its text and hint."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.exactly_once.transactional_id import driver_transactional_id

if TYPE_CHECKING:
    from spark_kafka_sink.exactly_once.transactional_id import Scope

_RESET = "resetTransactionalState=true"
_ACCEPT_BATCH = "resetTransactionalState={batch}, which accepts only this batch."
_MARK_AS_WRITTEN = (
    "`kafkaprod transactions commit --bootstrap-servers host:port --prefix {prefix} --accept-loss "
    "'{driver_id}'` marks the batch as written."
)
_SET_WRITE_NAME = (
    "if several writes have the same batchId, set the option writeName on all but the first; do "
    "not set it on a write that is already in the topic"
)


class RejectionTexts(NamedTuple):
    """Why a batch is rejected, and a hint, in which placeholders stand for the batch."""

    problem: str
    hint: str


class BatchRejection(Enum):
    """The reason why a batch must not be written."""

    LOG_IS_EMPTY = RejectionTexts(
        "the decision log has no record of the previous batches",
        hint="If the query has written before, or its decision log is lost, and you know that this "
        f"batch is not in the topic, start the query with {_ACCEPT_BATCH}",
    )
    BATCH_IS_BEHIND = RejectionTexts(
        "a later batch of the query is already decided",
        hint="The checkpoint was rolled back, or another driver is running this query: stop that "
        "driver, or use a new checkpoint and a new transactionalIdPrefix.",
    )
    BATCH_IS_AHEAD = RejectionTexts(
        "the decision log has no record of the previous batch",
        hint="Records of the decision log are missing. If you know that this batch is not in the "
        f"topic, start the query with {_ACCEPT_BATCH}",
    )
    OTHER_ROWS = RejectionTexts(
        "the batch was planned again with different rows",
        hint="Skipping the batch would lose rows, and writing it would duplicate rows. If the "
        "checkpoint was rolled back, restore its latest state, or start a new one after the "
        f"written batch, with {_RESET}. If the query does not read the same rows twice, the batch "
        f"in the topic is complete: {_MARK_AS_WRITTEN}",
    )
    OTHER_JOBS_ROWS = RejectionTexts(
        "this batchId was already written with different rows",
        hint="A batchId identifies its rows: skipping these rows would lose them. Give different "
        f"rows a different batchId, and {_SET_WRITE_NAME}. If the topic has the complete batch: "
        f"{_MARK_AS_WRITTEN}",
    )
    ANOTHER_WRITE = RejectionTexts(
        "another write in the same run of foreachBatch has this batchId and destination",
        hint="If one function writes several times, each write needs a different value of the "
        f"option topic; for the same topic, or without that option, {_SET_WRITE_NAME}. Retrying a "
        "write within the same call is also rejected: let the query fail, and restart it.",
    )
    OTHER_QUERY = RejectionTexts(
        "another query uses this transactionalIdPrefix",
        hint="Give each query its own transactionalIdPrefix. If this query replaces the other "
        "query, for example after its checkpoint was deleted, stop the other query and set "
        f"{_RESET}.",
    )
    RETIRED_QUERY = RejectionTexts(
        "another query has replaced this one under its transactionalIdPrefix",
        hint=f"This checkpoint was replaced by another checkpoint with {_RESET}: stop this query, "
        "or use a new checkpoint.",
    )
    OTHER_QUERYS_BATCH = RejectionTexts(
        "foreachBatch of another query has already written this batchId",
        hint="A new checkpoint numbers its batches from 0 again: use another transactionalIdPrefix "
        "with it, or add more than the batch number to the batchId.",
    )
    EARLIER_BATCH = RejectionTexts(
        "this batchId and a later one are already written",
        hint="A restarted query repeats only its latest batch, so skipping this one could lose "
        "rows. A new checkpoint numbers its batches from 0 again: use another "
        f"transactionalIdPrefix with it. If the topic has the complete batch: {_MARK_AS_WRITTEN}",
    )
    SKIPPED = RejectionTexts(
        "its tasks skipped the batch as already written, but the decision log has no record of it",
        hint="The batch is not written: find out what deleted records of the decision log.",
    )
    GIVEN_UP = RejectionTexts(
        "abort() was called before commit() decided",
        hint="No row of the batch is visible. Restart the query or the job to write it again.",
    )

    @property
    def problem(self) -> str:
        """Why the batch is rejected."""
        return self.value.problem

    def hint_for(self, scope: Scope, batch: str) -> str:
        """Return the hint for a batch."""
        return self.value.hint.format(
            batch=batch, prefix=scope.prefix, driver_id=driver_transactional_id(scope)
        )
