"""Durations: all values on the wire are read, including those beyond Python's timedelta."""

from datetime import timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_kafka_sink.kafka.protocol.codec import decode, milliseconds
from spark_kafka_sink.kafka.protocol.versions import ApiKey, response_type

LONGEST = timedelta.max // timedelta(milliseconds=1)
SHORTEST = timedelta.min // timedelta(milliseconds=1)


@settings(deadline=None, database=None)
@given(value=st.integers(-(2**63), 2**63 - 1))
@example(value=2**63 - 1)
@example(value=-(2**63))
@example(value=LONGEST + 1)
@example(value=SHORTEST - 1)
def test_every_number_is_a_duration_and_those_that_fit_are_exact(value: int) -> None:
    nearest = max(SHORTEST, min(value, LONGEST))
    assert milliseconds(value) == timedelta(milliseconds=nearest)


@settings(deadline=None, database=None)
@given(lifetime_ms=st.integers(-(2**63), 2**63 - 1))
@example(lifetime_ms=2**63 - 1)
def test_session_lifetime_may_have_any_value(lifetime_ms: int) -> None:
    """A broker's connections.max.reauth.ms may be Long.MAX_VALUE."""
    kind = response_type(ApiKey.SASL_AUTHENTICATE, 1)
    # No error, no message, no bytes; then the lifetime.
    data = bytes(2) + b"\xff\xff" + bytes(4) + lifetime_ms.to_bytes(8, "big", signed=True)
    answer, end = decode(kind, data)
    assert (answer.session_lifetime, end) == (milliseconds(lifetime_ms), len(data))
