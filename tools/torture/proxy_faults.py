"""Faults that a proxy injects into requests and responses, and when."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.message_format import decode
from spark_kafka_sink.kafka.protocol.messages import build, read_request_header, read_response
from spark_kafka_sink.kafka.protocol.versions import ApiKey, request_type, response_type
from tools.support.frames import response_frame

REFUSALS = (3, 5, 6, 9, 13, 19, 56, 72, 74)
DENIALS = (6, 7, 20)
"""With acks=all, a leader that steps down can return error 6 after appending the records."""
DUPLICATE_SEQUENCE = 46
UNKNOWN_PRODUCER_ID = 59


class Fault(StrEnum):
    """The proxy's action on a request or its response."""

    LOSE_REQUEST = "lose_request"
    """The connection is closed before the broker receives the request."""
    CUT_REQUEST = "cut_request"
    """The broker receives half of the request, then the connection is closed."""
    SWALLOW_REQUEST = "swallow_request"
    """The request and all later traffic in both directions are silently dropped."""
    LOSE_RESPONSE = "lose_response"
    """The broker applies the request; the connection is closed before the client's response."""
    RESET_RESPONSE = "reset_response"
    """Like LOSE_RESPONSE, but the connection is reset."""
    CUT_RESPONSE = "cut_response"
    """The client receives half of the response, then the connection is closed."""
    SWALLOW_RESPONSE = "swallow_response"
    """The broker applies the request; the response and all later traffic are dropped."""
    HALF_CLOSE = "half_close"
    """The broker applies the request; only the direction to the client is closed."""
    DELAY_REQUEST = "delay_request"
    DELAY_RESPONSE = "delay_response"
    DRIBBLE = "dribble"
    """The first bytes of the response arrive one at a time."""
    SWAP_RESPONSES = "swap_responses"
    """Two responses arrive in the wrong order."""
    REPEAT_RESPONSE = "repeat_response"
    """The same response arrives twice."""
    REFUSE = "refuse"
    """The broker does not receive the request; the client receives an unambiguous error."""
    DENY = "deny"
    """The broker applies the request; the client receives an ambiguous error."""
    DUPLICATE = "duplicate"
    """The broker applies the request; the client receives DUPLICATE_SEQUENCE_NUMBER."""
    FORGET = "forget"
    """The broker does not receive the request; the client receives UNKNOWN_PRODUCER_ID."""


FORGED = frozenset({Fault.REFUSE, Fault.FORGET})
REWRITTEN = frozenset({Fault.DENY, Fault.DUPLICATE})
PRODUCE_ONLY = FORGED | REWRITTEN
DELAYS = frozenset({Fault.DELAY_REQUEST, Fault.DELAY_RESPONSE, Fault.DRIBBLE})
LOSSES = frozenset(Fault) - PRODUCE_ONLY - DELAYS


@dataclass(kw_only=True)
class Schedule:
    """Draws faults. `rate` is the probability for Produce; a quarter of it is used otherwise."""

    seed: int
    kinds: tuple[Fault, ...]
    rate: float
    longest_delay: float = 0.3
    seen: Counter[str] = field(default_factory=Counter)
    active: bool = True
    _random: dict[int, Random] = field(default_factory=dict)

    def draw(self, node: int, *, produce: bool) -> Fault | None:
        """Return the fault for the next request to a broker, or None."""
        random = self._random_of(node)
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
        """Return the delay of a slow request or response in seconds."""
        return self._random_of(node).uniform(0.01, self.longest_delay)

    def code(self, node: int, fault: Fault) -> int:
        """Return an error code that the client receives for a fault."""
        if fault is Fault.DUPLICATE:
            return DUPLICATE_SEQUENCE
        if fault is Fault.FORGET:
            return UNKNOWN_PRODUCER_ID
        return self._random_of(node).choice(REFUSALS if fault is Fault.REFUSE else DENIALS)

    def heal(self) -> None:
        """Stop injecting faults."""
        self.active = False

    def _random_of(self, node: int) -> Random:
        return self._random.setdefault(node, Random(f"{self.seed}/{node}"))


def refusal(frame: bytes, code: int) -> bytes:
    """Return a response frame with an error for each partition of a Produce request."""
    header = read_request_header(frame)
    kind = request_type(ApiKey.PRODUCE, header.version)
    request, _ = decode(kind, frame, header.body_offset)
    answer = {"responses": [_topic(topic, code) for topic in request.topic_data]}
    entity = build(response_type(ApiKey.PRODUCE, header.version), answer)
    return response_frame(entity, header.correlation_id)


def _topic(topic: Any, code: int) -> dict[str, Any]:
    entries = [
        {
            "index": part.index,
            "error_code": ErrorCode(code),
            "base_offset": -1,
            "log_append_time": None,
            "log_start_offset": -1,
        }
        for part in topic.partition_data
    ]
    named = {name: getattr(topic, name) for name in ("name", "topic_id") if hasattr(topic, name)}
    return {**named, "partition_responses": entries}


def is_success(frame: bytes, version: int) -> bool:
    """Return True if a response to a Produce request contains no errors."""
    _, answer = read_response(response_type(ApiKey.PRODUCE, version), frame)
    return all(
        part.error_code == ErrorCode.none
        for topic in answer.responses
        for part in topic.partition_responses
    )
