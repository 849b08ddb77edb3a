"""The errors for batches that must not be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.exactly_once.decision_rules import BatchRejection
from spark_kafka_sink.exactly_once.scope_state import Done, Nothing
from spark_kafka_sink.exactly_once.transactional_id import Scope, driver_id

if TYPE_CHECKING:
    from spark_kafka_sink.exactly_once import decision_rules
    from spark_kafka_sink.exactly_once.decision_record import ScopeState
    from spark_kafka_sink.exactly_once.transactional_id import Scope

_MAX_LISTED: Final = 5
"""Maximum number of topics in an error message."""


def rejection_error(
    rejection: BatchRejection, scope: Scope, state: ScopeState, caller: decision_rules.Caller
) -> TransactionError:
    """Return the error for a batch that must not be written, given the state of the log."""
    log_text = (
        "the decision log has no record"
        if isinstance(state, Nothing)
        else f"the decision log has {_batch(state.batch, state.query)}"
    )
    if caller.rows is not None and isinstance(state, Done) and state.rows is not None:
        log_text += f" with {plural(state.rows, 'row')}, but now has {caller.rows:,}"
    if caller.topics is not None and isinstance(state, Done) and state.topics != caller.topics:
        log_text += f", for topics {_topics(state.topics)}, now for {_topics(caller.topics)}"
    if rejection is BatchRejection.ANOTHER_WRITE:
        log_text += _plannings(state, caller)
    return TransactionError(
        f"{_batch(caller.batch, caller.query)} is rejected: {rejection.value} "
        f"({scope}: {log_text})",
        hint=_HINTS[rejection] + _remedy(rejection, scope, caller),
    )


def _batch(number: str, query: str | None) -> str:
    """Return the name of a batch; a batch job has no query."""
    return f"batch {number}" if query is None else f"batch {number} of query {query}"


def _topics(names: tuple[str, ...] | None) -> str:
    """Return the first few topic names as text."""
    if names is None:
        return "unknown"
    others = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{', '.join(names[:_MAX_LISTED])}{others}"


def _plannings(state: ScopeState, caller: decision_rules.Caller) -> str:
    """Describe both writes by the nonces of their plannings."""
    plannings = () if isinstance(state, Nothing) else state.plannings
    first = next((planning.nonce for planning in plannings if planning.run == caller.run), None)
    if first is None or caller.planning is None:
        return ""
    return f", by planning {first}; this planning is {caller.planning.nonce}"
