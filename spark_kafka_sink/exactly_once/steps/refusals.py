"""Why a batch is refused, and what its user can do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.exactly_once.log_state import Done, Nothing
from spark_kafka_sink.exactly_once.protocol import Refusal
from spark_kafka_sink.exactly_once.transactional_id import driver_id

if TYPE_CHECKING:
    from spark_kafka_sink.exactly_once.log.decision import ScopeState
    from spark_kafka_sink.exactly_once.protocol import Caller
    from spark_kafka_sink.exactly_once.scope import Scope

_SHOWN: Final = 5
"""Topics that an error names."""
_RESET: Final = "resetTransactionalState=true"
_NAME_IT: Final = (
    "set the option writeName on all but the first of several writes with one batchId, not on the "
    "one that is written already"
)
_EARLIER: Final = (
    "An earlier version of this package has decided the batchId, and not noted for which topic: if "
    "that was another write, run that one first, which takes the decision over. Otherwise: "
)
_HINTS: Final = {
    Refusal.LOG_IS_EMPTY: "If the query wrote at least once before, or its decision log is lost "
    "and you know that this batch is not in the topic, start it with ",
    Refusal.BATCH_IS_BEHIND: "The checkpoint was set back, or another driver runs this query: end "
    "that one, or use a new checkpoint and a new transactionalIdPrefix",
    Refusal.BATCH_IS_AHEAD: "Records of the decision log are missing. If you know that this batch "
    "is not in the topic, start the query with ",
    Refusal.OTHER_ROWS: "To skip it would lose rows, and to write it would double some. If the "
    "checkpoint was set back, bring its latest state back, or begin a new one where the written "
    f"batch ends, with {_RESET}. If the query does not read the same rows twice, the batch in the "
    "topic is whole: ",
    Refusal.OTHER_JOBS_ROWS: "A batchId names its rows: to skip these would lose them. Give other "
    f"rows another batchId, and {_NAME_IT}. If those in the topic are the whole batch: ",
    Refusal.ANOTHER_WRITE: "Writes of one function to different values of the option topic need "
    f"nothing; to the same topic, or without that option, {_NAME_IT}. A write that is tried again "
    "in the same call is refused, too: let the query fail, and start it again",
    Refusal.OTHER_QUERY: "Give each query its own transactionalIdPrefix. If this query replaces "
    f"the other one, as after its checkpoint was deleted, end that one and set {_RESET}",
    Refusal.RETIRED_QUERY: f"This checkpoint was replaced by another one with {_RESET}: end this "
    "query, or use a new checkpoint",
    Refusal.OTHER_QUERYS_BATCH: "A new checkpoint counts its batches from 0 again: use another "
    "transactionalIdPrefix with it, or a batchId with more than the number",
    Refusal.SKIPPED: "Nothing is decided: find out who has deleted records of the decision log",
    Refusal.GIVEN_UP: "Nothing of it is visible. The query's next start writes the batch again",
}


def refusal_error(
    refusal: Refusal,
    scope: Scope,
    state: ScopeState,
    caller: Caller,
    *,
    is_earlier: bool = False,
) -> TransactionError:
    """The error for a batch that may not be written.

    Args:
        refusal: why.
        scope: of the write.
        state: what the log has.
        caller: who was refused.
        is_earlier: the log has it from a version that did not tell the writes of a batch apart.
    """
    known = (
        "the decision log has no record"
        if isinstance(state, Nothing)
        else f"the decision log has batch {state.batch} of query {state.query}"
    )
    if caller.rows is not None and isinstance(state, Done) and state.rows is not None:
        known += f" with {plural(state.rows, 'row')}, now there are {caller.rows:,}"
    if caller.topics is not None and isinstance(state, Done) and state.topics != caller.topics:
        known += f", for topics {_topics(state.topics)}, now for {_topics(caller.topics)}"
    if refusal is Refusal.ANOTHER_WRITE:
        known += _plannings(state, caller)
    return TransactionError(
        f"batch {caller.batch} of query {caller.query} is refused: {refusal.value} ({scope}: "
        f"{known})",
        hint=(_EARLIER if is_earlier else "") + _HINTS[refusal] + _what(refusal, scope, caller),
    )


def _what(refusal: Refusal, scope: Scope, caller: Caller) -> str:
    """The end of a hint, where it names the scope or the batch."""
    if refusal in {Refusal.LOG_IS_EMPTY, Refusal.BATCH_IS_AHEAD}:
        return f"resetTransactionalState={caller.batch}, which lets this batch alone pass"
    if refusal not in {Refusal.OTHER_ROWS, Refusal.OTHER_JOBS_ROWS}:
        return ""
    return (
        f"`kafkaprod transactions commit --prefix {scope.prefix} --accept-loss "
        f"'{driver_id(scope)}'` lets it count as written"
    )


def _topics(names: tuple[str, ...] | None) -> str:
    """Some of them."""
    if names is None:
        return "not known"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _plannings(state: ScopeState, caller: Caller) -> str:
    """Both writes, by what their transactional ids have."""
    known = () if isinstance(state, Nothing) else state.plannings
    first = next((each.nonce for each in known if each.run == caller.run), None)
    if first is None or caller.planning is None:
        return ""
    return f", from planning {first}; this one is {caller.planning.nonce}"
