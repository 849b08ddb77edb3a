"""Drop the log lines of a probe whose result is reported separately."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def quiet_log(name: str) -> Iterator[None]:
    """Drop what this thread logs with a logger and its children; other threads are unaffected."""
    own = get_ident()

    def is_of_other_thread(record: logging.LogRecord) -> bool:
        return record.thread != own

    # Python does not pass the records of child loggers to the filters of their parents.
    loggers = [
        logger
        for key, logger in list(logging.Logger.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and f"{key}.".startswith(f"{name}.")
    ]
    for logger in loggers:
        logger.addFilter(is_of_other_thread)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_of_other_thread)
