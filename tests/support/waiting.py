"""Wait for changes that take effect after the request that caused them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.support.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMEOUT_S = 60
_POLL_INTERVAL_S = 0.02


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait up to a minute until `condition` returns True."""
    assert poll(condition, _TIMEOUT_S, _POLL_INTERVAL_S), "timeout"


def wait_until_equal(read: Callable[[], object], expected: object) -> None:
    """Wait up to a minute until `read` returns `expected`."""
    if not poll(lambda: read() == expected, _TIMEOUT_S, _POLL_INTERVAL_S):
        assert read() == expected
