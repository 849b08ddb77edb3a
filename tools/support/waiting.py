"""Wait for changes that take effect after the request that caused them."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def poll(condition: Callable[[], T], seconds: float, interval_s: float = 0.05) -> T:
    """Call `condition` until its result is true, or a timeout; return the last result."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(interval_s)
    return value
