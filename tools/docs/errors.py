"""Tables of error classes, reasons of bad rows, and reactions to errors of brokers."""

from dataclasses import replace
from inspect import getdoc

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.kafka.protocol.error_codes import MAYBE_APPENDED, ErrorCode, error_name
from spark_kafka_sink.producer.bad_rows.row_error import RowError
from spark_kafka_sink.producer.send.error_policy import BatchAction, RejectionFacts, next_step
from tools.docs.pages import one_line, table

_USUAL = RejectionFacts(
    is_idempotent=True,
    is_head=True,
    records=2,
    is_possibly_persisted=False,
    is_expired=False,
    has_attempts_left=True,
)
"""A batch of several records of an idempotent producer, sent once and not expired."""
_DOES = {
    BatchAction.COMPLETE: "the batch counts as delivered: the broker already has it",
    BatchAction.REFRESH_AND_RETRY: "metadata is refreshed, then the batch is retried",
    BatchAction.RETRY: "the batch is retried after a backoff",
    BatchAction.SPLIT: "the batch is split and its pieces are sent",
    BatchAction.BUMP_AND_RETRY: "the producer epoch is bumped, then the batch is retried",
    BatchAction.FATAL: "the task fails, and its producer id is discarded",
}


def render_error_classes() -> str:
    """Return a table of the error classes with the first sentences of their docstrings."""
    rows = (
        (f"`{error_class.__name__}`", one_line((getdoc(error_class) or "").split("\n\n")[0]))
        for error_class in vars(errors).values()
        if isinstance(error_class, type) and issubclass(error_class, KafkaProdError)
    )
    return table(("error", "meaning"), rows)


def render_row_errors() -> str:
    """Return a table of the reasons why a row cannot be written."""
    row_errors = [error for error in RowError if error is not RowError.NONE]
    rows = (
        (f"`{error.name}`", error.message, f"`{error.error_class.rpartition('.')[2]}`")
        for error in row_errors
    )
    return table(("reason", "meaning", "error without tolerance"), rows)


def render_broker_errors() -> str:
    """Return a table of the producer's reactions to Produce errors; other errors fail the batch."""
    names: dict[BatchAction, list[str]] = {action: [] for action in _DOES}
    for code in ErrorCode:
        action = next_step(code.value, _USUAL).action
        if code.value != 0 and action in names:
            names[action].append(f"`{error_name(code.value)}`")
    gap = ErrorCode.out_of_order_sequence_number.value
    behind = next_step(gap, replace(_USUAL, is_head=False))
    names[behind.action].append(f"`{error_name(gap)}` while an earlier batch is unanswered")
    rows = [(", ".join(names), _DOES[action]) for action, names in names.items() if names]
    return table(("error", "what the producer does"), rows)


def render_unclear_errors() -> str:
    """Return a list of the errors after which the log can still contain the records."""
    named = sorted(code for code in MAYBE_APPENDED if code in list(ErrorCode))
    return "".join(f"- `{error_name(code)}`\n" for code in named)
