"""Token buckets and the ramp after retries, with a manual clock."""

import pytest

from spark_kafka_sink.config.throttling import RateLimits
from spark_kafka_sink.producer.limits.ramp import Ramp
from spark_kafka_sink.producer.limits.rate_limiter import RateLimiter, TokenBucket

NO_RAMP = Ramp()
HUGE = 1 << 40


def test_overdrawn_bucket_waits() -> None:
    bucket = TokenBucket(100.0, refilled_at=50.0)
    bucket.spend(30)
    assert bucket.seconds_until_due(1.0) == pytest.approx(0.3)
    assert bucket.seconds_until_due(0.5) == pytest.approx(0.6)
    bucket.refill(50.2, 1.0)
    assert bucket.seconds_until_due(1.0) == pytest.approx(0.1)
    bucket.refill(50.3, 1.0)
    assert bucket.seconds_until_due(1.0) == pytest.approx(0.0)


def test_unused_tokens_do_not_accumulate() -> None:
    rested = TokenBucket(100.0, refilled_at=0.0)
    rested.refill(1_000.0, 1.0)
    assert rested.level == pytest.approx(10.0)


def test_stopped_clock_adds_no_tokens() -> None:
    bucket = TokenBucket(100.0, level=-5.0, refilled_at=7.0)
    bucket.refill(7.0, 1.0)
    assert bucket.level == -5.0


@pytest.mark.parametrize(
    ("after", "factor"),
    [(0.0, 1 / 16), (0.99, 1 / 16), (1.0, 1 / 8), (2.5, 1 / 4), (3.0, 1 / 2), (4.0, 1), (1e9, 1)],
)
def test_rate_doubles_each_second_after_trouble(after: float, factor: float) -> None:
    assert Ramp(100.0).factor(100.0 + after) == factor
    assert NO_RAMP.factor(100.0 + after) == 1.0


def wait_of_chunk(limiter: RateLimiter, now: float, ramp: Ramp) -> float:
    """Return the seconds that a chunk must wait."""
    limiter.refill(now, ramp)
    return limiter.seconds_until_due()


def test_ramp_that_is_about_to_rise_does_not_admit_a_chunk() -> None:
    limiter, ramp = RateLimiter(RateLimits(records_per_second=100), 0.0), Ramp(10.0)
    limiter.refill(10.0, ramp)
    limiter.acquire(100, 100)
    assert wait_of_chunk(limiter, 11.0 - 1e-6, ramp) > 0


def written(limits: RateLimits, seconds: float, started_at: float | None = None) -> int:
    """Count the rows of 10 bytes that are written in `seconds`."""
    limiter, now, end, rows = RateLimiter(limits, 0.0), 0.0, seconds, 0
    chunk, size = limiter.max_chunk(10_000, HUGE)
    count = min(chunk, max(1, size // 10))
    while True:
        ramp = Ramp(started_at) if started_at is not None and now >= started_at else NO_RAMP
        while wait := wait_of_chunk(limiter, now, ramp):
            now += wait
            if started_at is not None and now >= started_at:
                ramp = Ramp(started_at)
        if now >= end:
            return rows
        limiter.acquire(count, count * 10)
        rows += count


@pytest.mark.parametrize("rate", [1, 7, 1_000, 250_000])
def test_record_limit_delays_the_writer(rate: int) -> None:
    assert written(RateLimits(records_per_second=rate), 40.0) == pytest.approx(
        40 * rate, rel=0.02, abs=1
    )


def test_stricter_limit_wins() -> None:
    assert written(RateLimits(300.0, 50_000.0), 40.0) == pytest.approx(12_000, rel=0.02)
    assert written(RateLimits(30_000.0, 5_000.0), 40.0) == pytest.approx(20_000, rel=0.02)


def test_ramp_lowers_the_rate_temporarily() -> None:
    quiet = written(RateLimits(records_per_second=16_000), 20.0)
    ramped = written(RateLimits(records_per_second=16_000), 20.0, started_at=10.0)
    # Four seconds at 1/16, 1/8, 1/4 and 1/2 of the rate allow 15/16 of a second's data.
    assert quiet - ramped == pytest.approx(16_000 * (4 - 15 / 16), rel=0.1)


def test_continuous_trouble_leaves_a_sixteenth() -> None:
    limiter = RateLimiter(RateLimits(records_per_second=1_600), 0.0)
    limiter.acquire(100, 0)
    now, rows = 0.0, 0
    while now < 20.0:
        wait = wait_of_chunk(limiter, now, Ramp(now))
        now += min(wait, 0.5) or 0.0
        if not wait:
            limiter.acquire(10, 0)
            rows += 10
    assert rows == pytest.approx(20 * 100 - 100, rel=0.05)


def test_chunk_size_is_a_fraction_of_a_second() -> None:
    assert RateLimiter(RateLimits(records_per_second=1_000), 0.0).max_chunk(10_000, 77) == (250, 77)
    assert RateLimiter(RateLimits(records_per_second=1), 0.0).max_chunk(10_000, 77) == (1, 77)
    assert RateLimiter(RateLimits(bytes_per_second=1_000), 0.0).max_chunk(10_000, 9_999) == (
        10_000,
        250,
    )


def test_writer_without_limits_is_not_delayed() -> None:
    limiter = RateLimiter(RateLimits(), 0.0)
    assert not limiter.is_limited
    assert limiter.max_chunk(10, 20) == (10, 20)
    limiter.acquire(1 << 40, 1 << 40)
    assert wait_of_chunk(limiter, 0.0, NO_RAMP) == 0.0


def steady(limiter: RateLimiter, start: float, stop: float, size: int = 100) -> None:
    """Write `size` bytes 100 times per second without waiting."""
    for tick in range(int(start * 100), int(stop * 100)):
        assert wait_of_chunk(limiter, tick / 100, NO_RAMP) == 0.0
        limiter.acquire(1, size)


def ramping(limiter: RateLimiter, ramp: Ramp, start: float, seconds: float) -> int:
    """Count the bytes written in `seconds` in chunks of 100."""
    now, taken = start, 0
    while now < start + seconds:
        wait = wait_of_chunk(limiter, now, ramp)
        now += wait or 0.001
        if not wait:
            limiter.acquire(1, 100)
            taken += 100
    return taken


def test_without_limit_ramp_starts_at_a_fraction_of_the_measured_rate() -> None:
    limiter = RateLimiter(RateLimits(), 0.0)
    steady(limiter, 0.0, 8.0)  # 10,000 bytes per second
    assert ramping(limiter, Ramp(8.0), 8.0, 1.0) == pytest.approx(10_000 / 16, abs=400)
    assert ramping(limiter, Ramp(8.0), 9.0, 3.0) == pytest.approx(
        10_000 * (1 / 8 + 1 / 4 + 1 / 2), rel=0.1
    )
    assert ramping(limiter, Ramp(8.0), 12.0, 1.0) > 90_000  # the limit has been lifted


def test_repeated_trouble_does_not_lower_the_measured_rate() -> None:
    limiter = RateLimiter(RateLimits(), 0.0)
    steady(limiter, 0.0, 8.0)
    for round_ in range(4):
        at = 8.0 + 4.5 * round_
        assert ramping(limiter, Ramp(at), at, 1.0) == pytest.approx(10_000 / 16, abs=400)
        ramping(limiter, Ramp(at), at + 1.0, 3.0)
        steady(limiter, at + 4.0, at + 4.5)


def test_trouble_before_any_measurement_has_no_effect() -> None:
    limiter = RateLimiter(RateLimits(), 0.0)
    assert ramping(limiter, Ramp(0.0), 0.0, 1.0) > 90_000
    steady(limiter, 100.0, 100.5)
    assert ramping(limiter, Ramp(100.5), 100.5, 1.0) > 90_000


def test_only_the_last_seconds_are_measured() -> None:
    limiter = RateLimiter(RateLimits(), 0.0)
    steady(limiter, 0.0, 100.0, size=1_000)
    steady(limiter, 100.0, 115.0)
    assert ramping(limiter, Ramp(115.0), 115.0, 1.0) == pytest.approx(10_000 / 16, abs=400)


def test_explicit_limit_needs_no_measurement() -> None:
    limiter = RateLimiter(RateLimits(bytes_per_second=16_000.0), 0.0)
    steady(limiter, 0.0, 8.0)
    assert ramping(limiter, Ramp(8.0), 8.0, 1.0) == pytest.approx(1_000, rel=0.2, abs=1_700)
