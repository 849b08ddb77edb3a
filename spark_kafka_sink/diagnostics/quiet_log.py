"""Keeping the package's own log away while its findings tell the same."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def quiet_log(name: str) -> Iterator[None]:
    """Let a logger, and those below it, say nothing for a while."""
    log = logging.getLogger(name)
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
