"""Wait for changes that take effect after the request that caused them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMEOUT_S = 60
_POLL_INTERVAL_S = 0.02


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait up to a minute until `condition` returns True."""
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "timeout"
        time.sleep(_POLL_INTERVAL_S)


def wait_until_equal(read: Callable[[], object], expected: object) -> None:
    """Wait up to a minute until `read` returns `expected`."""
    deadline = time.monotonic() + _TIMEOUT_S
    while (found := read()) != expected and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL_S)
    assert found == expected
