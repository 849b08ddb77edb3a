"""The errors for batches that must not be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.exactly_once import decision_rules
from spark_kafka_sink.exactly_once.decision_rules import BatchRejection
from spark_kafka_sink.exactly_once.transactional_id import Scope, driver_id

if TYPE_CHECKING:
    from spark_kafka_sink.exactly_once.decision_record import ScopeState

_MAX_LISTED: Final = 5
"""Maximum number of topics in an error message."""
_RESET: Final = "resetTransactionalState=true"
_SET_WRITE_NAME: Final = (
    "if several writes have the same batchId, set the option writeName on all but the first; do "
    "not set it on a write that is already in the topic"
)
_HINTS: Final = {
    BatchRejection.LOG_IS_EMPTY: "If the query has written before, or its decision log is lost, "
    "and you know that this batch is not in the topic, start the query with ",
    BatchRejection.BATCH_IS_BEHIND: "The checkpoint was rolled back, or another driver is running "
    "this query: stop that driver, or use a new checkpoint and a new transactionalIdPrefix.",
    BatchRejection.BATCH_IS_AHEAD: "Records of the decision log are missing. If you know that this "
    "batch is not in the topic, start the query with ",
    BatchRejection.OTHER_ROWS: "Skipping the batch would lose rows, and writing it would duplicate "
    "rows. If the checkpoint was rolled back, restore its latest state, or start a new one after "
    f"the written batch, with {_RESET}. If the query does not read the same rows twice, the batch "
    "in the topic is complete: ",
    BatchRejection.OTHER_JOBS_ROWS: "A batchId identifies its rows: skipping these rows would lose "
    f"them. Give different rows a different batchId, and {_SET_WRITE_NAME}. If the topic has the "
    "complete batch: ",
    BatchRejection.ANOTHER_WRITE: "If one function writes several times, each write needs a "
    "different value of the option topic; for the same topic, or without that option, "
    f"{_SET_WRITE_NAME}. Retrying a write within the same call is also rejected: let the query "
    "fail, and restart it.",
    BatchRejection.OTHER_QUERY: "Give each query its own transactionalIdPrefix. If this query "
    "replaces the other query, for example after its checkpoint was deleted, stop the other query "
    f"and set {_RESET}.",
    BatchRejection.RETIRED_QUERY: "This checkpoint was replaced by another checkpoint with "
    f"{_RESET}: stop this query, or use a new checkpoint.",
    BatchRejection.OTHER_QUERYS_BATCH: "A new checkpoint numbers its batches from 0 again: use "
    "another transactionalIdPrefix with it, or add more than the batch number to the batchId.",
    BatchRejection.EARLIER_BATCH: "A restarted query repeats only its latest batch, so skipping "
    "this one could lose rows. A new checkpoint numbers its batches from 0 again: use another "
    "transactionalIdPrefix with it. If the topic has the complete batch: ",
    BatchRejection.SKIPPED: "The batch is not written: find out what deleted records of the "
    "decision log.",
    BatchRejection.GIVEN_UP: "No row of the batch is visible. Restart the query to write the batch "
    "again.",
}


def rejection_error(
    rejection: BatchRejection, scope: Scope, state: ScopeState, caller: decision_rules.Caller
) -> TransactionError:
    """Return the error for a batch that must not be written, given the state of the log."""
    known = (
        "the decision log has no record"
        if isinstance(state, decision_rules.Nothing)
        else f"the decision log has {_batch(state.batch, state.query)}"
    )
    if (
        caller.rows is not None
        and isinstance(state, decision_rules.Done)
        and state.rows is not None
    ):
        known += f" with {plural(state.rows, 'row')}, but now has {caller.rows:,}"
    if (
        caller.topics is not None
        and isinstance(state, decision_rules.Done)
        and state.topics != caller.topics
    ):
        known += f", for topics {_topics(state.topics)}, now for {_topics(caller.topics)}"
    if rejection is BatchRejection.ANOTHER_WRITE:
        known += _plannings(state, caller)
    return TransactionError(
        f"{_batch(caller.batch, caller.query)} is rejected: {rejection.value} ({scope}: {known})",
        hint=_HINTS[rejection] + _remedy(rejection, scope, caller),
    )


def _batch(number: str, query: str | None) -> str:
    """Return the name of a batch; a batch job has no query."""
    return f"batch {number}" if query is None else f"batch {number} of query {query}"


def _remedy(rejection: BatchRejection, scope: Scope, caller: decision_rules.Caller) -> str:
    """Return the last part of a hint, which contains the scope or the batch."""
    if rejection in {BatchRejection.LOG_IS_EMPTY, BatchRejection.BATCH_IS_AHEAD}:
        return f"resetTransactionalState={caller.batch}, which accepts only this batch."
    if rejection not in {
        BatchRejection.OTHER_ROWS,
        BatchRejection.OTHER_JOBS_ROWS,
        BatchRejection.EARLIER_BATCH,
    }:
        return ""
    return (
        f"`kafkaprod transactions commit --bootstrap-servers host:port "
        f"--prefix {scope.prefix} --accept-loss "
        f"'{driver_id(scope)}'` marks the batch as written."
    )


def _topics(names: tuple[str, ...] | None) -> str:
    """Return the first few topic names as text."""
    if names is None:
        return "unknown"
    others = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{', '.join(names[:_MAX_LISTED])}{others}"


def _plannings(state: ScopeState, caller: decision_rules.Caller) -> str:
    """Describe both writes by the nonces of their plannings."""
    known = () if isinstance(state, decision_rules.Nothing) else state.plannings
    first = next((planning.nonce for planning in known if planning.run == caller.run), None)
    if first is None or caller.planning is None:
        return ""
    return f", by planning {first}; this planning is {caller.planning.nonce}"
