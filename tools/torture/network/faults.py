"""What may happen to one request or its answer on the way through the proxy."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from threading import Lock


class Fault(StrEnum):
    """The broker has the request only where it says so."""

    LOSE_REQUEST = "lose_request"
    """Cut before the broker gets it."""
    CUT_REQUEST = "cut_request"
    """The broker gets half of it, then the end."""
    SWALLOW_REQUEST = "swallow_request"
    """Nothing gets through any more, in no direction, and nobody is told."""
    LOSE_RESPONSE = "lose_response"
    """The broker applies it, and the client's connection ends instead of the answer."""
    RESET_RESPONSE = "reset_response"
    """The same, with a reset."""
    CUT_RESPONSE = "cut_response"
    """The client gets half of the answer, then the end."""
    SWALLOW_RESPONSE = "swallow_response"
    """The broker applies it, and the client hears nothing more."""
    HALF_CLOSE = "half_close"
    """The broker applies it; the client's side is shut for reading and stays open for writing."""
    DELAY_REQUEST = "delay_request"
    DELAY_RESPONSE = "delay_response"
    DRIBBLE = "dribble"
    """The answer comes byte by byte at first."""
    SWAP_RESPONSES = "swap_responses"
    """Two answers come in the wrong order."""
    REPEAT_RESPONSE = "repeat_response"
    """The same answer comes twice."""
    REFUSE = "refuse"
    """The broker never gets it; the client is told an error that says so."""
    DENY = "deny"
    """The broker applies it; the client is told an error that leaves it open."""
    DUPLICATE = "duplicate"
    """The broker applies it; the client is told DUPLICATE_SEQUENCE_NUMBER."""
    FORGET = "forget"
    """The broker never gets it; the client is told UNKNOWN_PRODUCER_ID."""


FORGED = frozenset({Fault.REFUSE, Fault.FORGET})
REWRITTEN = frozenset({Fault.DENY, Fault.DUPLICATE})
PRODUCE_ONLY = FORGED | REWRITTEN
LOSSES = frozenset(
    {
        Fault.LOSE_REQUEST,
        Fault.CUT_REQUEST,
        Fault.SWALLOW_REQUEST,
        Fault.LOSE_RESPONSE,
        Fault.RESET_RESPONSE,
        Fault.CUT_RESPONSE,
        Fault.SWALLOW_RESPONSE,
        Fault.HALF_CLOSE,
        Fault.SWAP_RESPONSES,
        Fault.REPEAT_RESPONSE,
    }
)
DELAYS = frozenset({Fault.DELAY_REQUEST, Fault.DELAY_RESPONSE, Fault.DRIBBLE})

REFUSALS = (3, 5, 6, 9, 13, 19, 56, 72, 74)
DENIALS = (6, 7, 20)
"""With acks=all a leader that steps down answers 6 although it has appended the records."""
DUPLICATE_SEQUENCE = 46
UNKNOWN_PRODUCER_ID = 59


@dataclass(kw_only=True)
class Schedule:
    """Draws the faults: `rate` per Produce request, a quarter of it for any other."""

    seed: int
    kinds: tuple[Fault, ...]
    rate: float
    longest_delay: float = 0.3
    seen: Counter[str] = field(default_factory=Counter)
    active: bool = True
    _lock: Lock = field(default_factory=Lock)
    _random: dict[int, Random] = field(default_factory=dict)

    def draw(self, node: int, *, produce: bool) -> Fault | None:
        """What happens to the next request to a broker."""
        with self._lock:
            random = self._of(node)
            chance, pick = random.random(), random.random()
            rate = self.rate if produce else self.rate / 4
            if not self.active or not self.kinds or chance >= rate:
                return None
            fault = self.kinds[int(pick * len(self.kinds))]
            if fault in PRODUCE_ONLY and not produce:
                return None
            self.seen[fault.value] += 1
            return fault

    def delay(self, node: int) -> float:
        """Seconds."""
        with self._lock:
            return self._of(node).uniform(0.01, self.longest_delay)

    def code(self, node: int, fault: Fault) -> int:
        """The error code that the client is told."""
        if fault is Fault.DUPLICATE:
            return DUPLICATE_SEQUENCE
        if fault is Fault.FORGET:
            return UNKNOWN_PRODUCER_ID
        with self._lock:
            return self._of(node).choice(REFUSALS if fault is Fault.REFUSE else DENIALS)

    def heal(self) -> None:
        """No more faults."""
        self.active = False

    def _of(self, node: int) -> Random:
        return self._random.setdefault(node, Random(f"{self.seed}/{node}"))
