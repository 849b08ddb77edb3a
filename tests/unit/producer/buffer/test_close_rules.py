"""When a batch is closed, for sizes, ages and memory on both sides of each limit."""

import pytest

from spark_kafka_sink.common.close_reason import CloseReason
from spark_kafka_sink.producer.buffer.close_rules import (
    CloseRules,
    is_writer_starved,
    surplus_bytes,
)

RULES = CloseRules(full_size=1_000, full_records=10, linger_s=0.1, is_linger_short=False)


@pytest.mark.parametrize(
    ("size", "records", "is_full"), [(999, 9, False), (1_000, 9, True), (999, 10, True)]
)
def test_a_batch_is_full_by_size_or_records(size: int, records: int, is_full: bool) -> None:
    assert RULES.is_full(size, records) is is_full


@pytest.mark.parametrize(
    ("now", "is_memory_short", "reason"),
    [
        (1.0, False, None),
        (1.0, True, CloseReason.MEMORY),
        (1.1, False, CloseReason.LINGER),
        (1.1, True, CloseReason.LINGER),
    ],
)
def test_linger_comes_before_memory(
    now: float, is_memory_short: bool, reason: CloseReason | None
) -> None:
    assert RULES.reason_to_close(1.0, now, is_memory_short=is_memory_short) is reason


@pytest.mark.parametrize(
    ("waiting_since", "is_all_open", "is_starved"),
    [(None, True, False), (0.99, False, False), (0.97, False, True), (1.0, True, True)],
)
def test_a_waiting_writer_first_gives_sent_batches_time(
    waiting_since: float | None, is_all_open: bool, is_starved: bool
) -> None:
    assert is_writer_starved(waiting_since, 1.0, is_all_open=is_all_open) is is_starved


@pytest.mark.parametrize(
    ("used", "open_bytes", "surplus"), [(50, 50, 0), (60, 50, 0), (51, 51, 26), (100, 80, 55)]
)
def test_open_batches_above_half_of_the_buffer_are_reduced_to_a_quarter(
    used: int, open_bytes: int, surplus: int
) -> None:
    assert surplus_bytes(used, 100, open_bytes) == surplus


@pytest.mark.parametrize(
    ("oldest", "is_writer_waiting", "seconds"),
    [(None, False, 0.1), (0.98, False, 0.08), (0.98, True, 0.02), (0.5, True, 0.0)],
)
def test_the_rules_are_applied_again_when_they_can_change(
    oldest: float | None, is_writer_waiting: bool, seconds: float
) -> None:
    due = RULES.seconds_until_due(oldest, 1.0, is_writer_waiting=is_writer_waiting)
    assert due == pytest.approx(seconds)
