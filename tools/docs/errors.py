"""The errors: classes, reasons of bad rows, and what the producer does about a broker's."""

from __future__ import annotations

from dataclasses import replace
from inspect import getdoc

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.producer.bad_rows import RowError
from spark_kafka_sink.producer.send.error_policy import Action, Facts, decide
from spark_kafka_sink.protocol.error_codes import MAYBE_APPENDED, ErrorCode, error_name
from tools.docs.markdown import one_line, table

_USUAL = Facts(
    idempotent=True,
    head=True,
    records=2,
    ambiguous=False,
    expired=False,
    attempts_left=True,
)
"""An idempotent producer's batch of several records, none before it in doubt, in time."""
_DOES = {
    Action.COMPLETE: "it counts as delivered: the broker had the batch already",
    Action.REFRESH_AND_RETRY: "the leader is asked for, then the batch goes again",
    Action.RETRY: "the batch goes again after a pause",
    Action.SPLIT: "the batch is split and goes in parts",
    Action.BUMP_AND_RETRY: "a new producer epoch, then the batch goes again",
    Action.FATAL: "the task fails, and its producer id is not used again",
}


def render_error_classes() -> str:
    """Every error that is raised, with its first sentence."""
    classes = [each for each in vars(errors).values() if _is_ours(each)]
    rows = ((f"`{each.__name__}`", _first_sentence(each)) for each in classes)
    return table(("error", "meaning"), rows)


def _is_ours(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, KafkaProdError)


def _first_sentence(owner: type) -> str:
    return one_line((getdoc(owner) or "").split("\n\n")[0])


def render_row_errors() -> str:
    """Why a row can't be written."""
    flaws = [flaw for flaw in RowError if flaw is not RowError.NONE]
    rows = ((f"`{flaw.name}`", flaw.message, _class_name(flaw)) for flaw in flaws)
    return table(("reason", "meaning", "error without tolerance"), rows)


def _class_name(flaw: RowError) -> str:
    return f"`{flaw.error_class.rpartition('.')[2]}`"


def render_broker_errors() -> str:
    """What comes of each error in an answer to a Produce request; all others fail the batch."""
    found: dict[Action, list[str]] = {action: [] for action in _DOES}
    for code in ErrorCode:
        action = decide(code.value, _USUAL).action
        if code.value != 0 and action in found:
            found[action].append(f"`{error_name(code.value)}`")
    gap = ErrorCode.out_of_order_sequence_number.value
    behind = decide(gap, replace(_USUAL, head=False))
    found[behind.action].append(f"`{error_name(gap)}` while an earlier batch is unanswered")
    rows = [(", ".join(names), _DOES[action]) for action, names in found.items() if names]
    return table(("answer", "what the producer does"), rows)


def render_unclear_errors() -> str:
    """Answers after which the log may hold the records all the same, each on a line."""
    named = sorted(code for code in MAYBE_APPENDED if code in list(ErrorCode))
    return "".join(f"- `{error_name(code)}`\n" for code in named)
