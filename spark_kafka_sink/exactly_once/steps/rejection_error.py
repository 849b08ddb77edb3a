"""The errors for batches that must not be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.common.text import listed, plural
from spark_kafka_sink.exactly_once.batch_rejection import BatchRejection
from spark_kafka_sink.exactly_once.decision_rules import is_same_batch
from spark_kafka_sink.exactly_once.scope_state import Done, NoDecision

if TYPE_CHECKING:
    from spark_kafka_sink.exactly_once.decision_record import ScopeState
    from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
    from spark_kafka_sink.exactly_once.transactional_id import Scope

_MAX_LISTED = 5
"""Maximum number of topics in an error message."""


def rejection_error(
    rejection: BatchRejection, scope: Scope, state: ScopeState, write: BatchWrite
) -> TransactionError:
    """Return the error for a batch that must not be written, given the state of the log."""
    log_text = (
        "the decision log has no record"
        if isinstance(state, NoDecision)
        else f"the decision log has {_batch_name(state.batch, state.query_id)}"
    )
    if isinstance(state, Done) and is_same_batch(state, write):
        log_text += _describe_differences(state, write)
    if rejection is BatchRejection.ANOTHER_WRITE:
        log_text += _describe_plannings(state, write)
    return TransactionError(
        f"{_batch_name(write.batch, write.query_id)} is rejected: {rejection.problem} "
        f"({scope}: {log_text})",
        hint=rejection.hint_for(scope, write.batch),
    )


def _describe_differences(state: Done, write: BatchWrite) -> str:
    """Describe the rows and topics of the written batch, and of the batch to write."""
    text = ""
    if None not in {write.rows, state.rows} and write.rows != state.rows:
        text += f" with {plural(state.rows or 0, 'row')}, but now has {write.rows:,}"
    if write.topics is not None and state.topics != write.topics:
        text += f", for topics {_list_topics(state.topics)}, now for {_list_topics(write.topics)}"
    return text


def _batch_name(number: str, query_id: str | None) -> str:
    """Return the name of a batch; a batch job has no query."""
    return f"batch {number}" if query_id is None else f"batch {number} of query {query_id}"


def _list_topics(names: tuple[str, ...] | None) -> str:
    return "unknown" if names is None else listed(names, _MAX_LISTED)


def _describe_plannings(state: ScopeState, write: BatchWrite) -> str:
    """Describe both writes by the nonces of their plannings."""
    plannings = () if isinstance(state, NoDecision) else state.plannings
    first = next(
        (planning.nonce for planning in plannings if planning.run_id == write.run_id), None
    )
    if first is None or write.planning is None:
        return ""
    return f", by planning {first}; this planning is {write.planning.nonce}"
