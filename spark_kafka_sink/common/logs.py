"""Warnings that are logged once, loggers whose lines are visible, and probes without log lines."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from functools import cache
from threading import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


@contextmanager
def quiet_log(name: str) -> Iterator[None]:
    """Drop what this thread logs with a logger and its children; other threads are unaffected."""
    thread_id = get_ident()

    def is_of_other_thread(record: logging.LogRecord) -> bool:
        return record.thread != thread_id

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


@cache
def warn_once(logger: logging.Logger, text: str, *values: str) -> None:
    """Log a warning, but only once per process for the same text and values."""
    logger.warning(text, *values)


def visible_logger(name: str, level: int) -> logging.Logger:
    """Return a logger at this level. Add a stderr handler if the process has not configured any."""
    logger = logging.getLogger(name)
    logger.setLevel(level)
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger.addHandler(handler)
    return logger
