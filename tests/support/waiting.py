"""Wait for changes that take effect after the request that caused them."""

from collections.abc import Callable, Container
from typing import TypeVar

from tools.support.waiting import poll

T = TypeVar("T")
_TIMEOUT_S = 120  # for slow machines
_POLL_INTERVAL_S = 0.01


def wait_until(condition: Callable[[], object]) -> None:
    """Wait up to two minutes until `condition` is true."""
    assert poll(condition, _TIMEOUT_S, _POLL_INTERVAL_S), "timeout"


def wait_until_equal(read: Callable[[], object], expected: object) -> None:
    """Wait up to two minutes until `read` returns `expected`."""
    if not poll(lambda: read() == expected, _TIMEOUT_S, _POLL_INTERVAL_S):
        assert read() == expected


def retry(call: Callable[[], T], code: Callable[[T], int], retried: Container[int]) -> T:
    """Call until the error code of the response is not a retried one; return the response."""
    responses: list[T] = []

    def is_final() -> bool:
        responses[:] = [call()]
        return code(responses[0]) not in retried

    poll(is_final, _TIMEOUT_S, _POLL_INTERVAL_S)
    return responses[0]
