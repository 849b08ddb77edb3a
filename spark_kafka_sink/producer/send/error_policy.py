"""What to do about the outcome of a sent batch: one pure decision, one table.

Source: Kafka's ``Sender.completeBatch`` and ``TransactionManager``, librdkafka's introduction,
KIP-360, KIP-467, KIP-890, KIP-951.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from kio.schema.errors import ErrorCode

from spark_kafka_sink.common.delivery_status import DeliveryStatus


class Action(Enum):
    """The one next step for a batch."""

    COMPLETE = auto()
    RETRY = auto()
    REFRESH_AND_RETRY = auto()
    SPLIT = auto()
    BUMP_AND_RETRY = auto()
    FAIL = auto()
    FATAL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the decision depends on beside the error code.

    `head`: no earlier batch of the partition is unsettled or left a gap. `ambiguous`: an earlier
    attempt got no clear answer: the log may hold the batch, so it may go again only as it was, by
    which a broker knows it. `expired`: delivery.timeout.ms has passed. `attempts_left`: retries is
    not used up.
    `gapless`: enable.gapless.guarantee, by which nothing may go on after a batch that failed for
    good, unless it failed because its time was up.
    """

    idempotent: bool
    head: bool
    records: int
    ambiguous: bool
    expired: bool
    attempts_left: bool
    gapless: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """An action, and the status of the records where it ends them."""

    action: Action
    status: DeliveryStatus = DeliveryStatus.NOT_PERSISTED


DISCONNECTED = -2
"""Our own code: the connection was lost, or the request timed out, before an answer came."""
NOT_SENT = -3
"""Our own code: the connection was lost before the request was written whole, so it had no effect.
"""
_OWN_NAMES = {DISCONNECTED: "DISCONNECTED", NOT_SENT: "NOT_SENT"}

_REFRESH = frozenset({3, 5, 6, 9, 13, 56, 72, 74, 100, 103})
_RETRY = frozenset({2, 7, 19, 20})
_FATAL = frozenset({90, 49, 31, 53})
_TOO_LARGE = frozenset({10})
_UNCLEAR = frozenset({3, 6, 7, 20, 56, DISCONNECTED})
"""The records may be in the log although no success was reported. 3, 6 and 56 too: a leader that
has appended them and steps down before its followers have them says so (``DelayedProduce``)."""

_NAMES = {code.value: code.name for code in ErrorCode} | _OWN_NAMES


def error_name(code: int) -> str:
    """Kafka's name of an error code, in capitals; unknown ones by number."""
    return _NAMES.get(code, f"UNKNOWN_ERROR_{code}").upper()


def decide(code: int, facts: Facts) -> Decision:
    """The next step for a batch that was answered with `code` (or a code of our own)."""
    if code == 0 or (code == ErrorCode.duplicate_sequence_number.value and facts.idempotent):
        return Decision(Action.COMPLETE, DeliveryStatus.PERSISTED)
    if code in _TOO_LARGE:
        return _too_large(code, facts)
    if code in _FATAL:
        return Decision(Action.FATAL, _status(code, facts))
    action = _retriable(code, facts)
    if action is not None and not facts.expired and facts.attempts_left:
        return Decision(action)
    if facts.gapless and not (action is not None and facts.expired):
        return Decision(Action.FATAL, _status(code, facts))
    return Decision(Action.FAIL, _status(code, facts))


def _too_large(code: int, facts: Facts) -> Decision:
    """Splitting is no retry, so attempts don't count; a single record can't be split.

    Without idempotence no broker knows a batch again, and the parts are as good as the whole.
    """
    may_divide = not (facts.ambiguous and facts.idempotent)
    if facts.records > 1 and may_divide and not facts.expired:
        return Decision(Action.SPLIT)
    gap = facts.gapless and not facts.expired
    return Decision(Action.FATAL if gap else Action.FAIL, _status(code, facts))


def _retriable(code: int, facts: Facts) -> Action | None:
    if code in _REFRESH or code in _OWN_NAMES:
        return Action.REFRESH_AND_RETRY
    if code in _RETRY:
        return Action.RETRY
    if not facts.idempotent:
        return None
    if code == ErrorCode.out_of_order_sequence_number.value and not facts.head:
        return Action.RETRY
    if code == ErrorCode.unknown_producer_id.value and not facts.ambiguous:
        return Action.BUMP_AND_RETRY
    return None


def is_unclear(code: int) -> bool:
    """Whether the records may be in the log although no success was reported."""
    return code in _UNCLEAR or code == -1 or code not in _NAMES


def _status(code: int, facts: Facts) -> DeliveryStatus:
    if facts.ambiguous or is_unclear(code):
        return DeliveryStatus.POSSIBLY_PERSISTED
    return DeliveryStatus.NOT_PERSISTED
