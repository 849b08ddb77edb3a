"""The format of the sink's log lines if logging is not configured, as in Spark's Python workers.

Otherwise Python would print only the message, between Spark's lines with time, level and logger.

A successful write does not justify a warning, but Python workers drop INFO by default. Therefore
`log_success` writes plain lines if stderr is visible to a user, and otherwise a line with the level
INFO.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = "spark_kafka_sink"
_SUMMARY = "spark_kafka_sink.summary"
"""Logger for the outcomes of successful writes."""
_FORMAT = "%(asctime)s{} %(log4j)s %(name)s: %(message)s"
_TIME = "%y/%m/%d %H:%M:%S"
_LOG4J = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}


class _LastResortHandler(logging.Handler):
    """Writes to stderr in the format of Spark's log4j2-defaults.properties.

    It ignores log records that a different handler receives, even a handler that was added later.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_FORMAT.format(""), _TIME))
        self._exact = logging.Formatter(_FORMAT.format(".%(msecs)03d"), _TIME)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a log record unless a different handler receives it."""
        if any(handler is not self for handler in _handlers_of(record.name)):
            return
        record.log4j = _LOG4J.get(record.levelno, record.levelname)
        is_event = record.levelno < logging.INFO  # kafka.debug logs many lines per second
        try:
            line = self._exact.format(record) if is_event else self.format(record)
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - like all handlers: no line may fail a write
            self.handleError(record)


def install() -> None:
    """Format the sink's lines like Spark's, once per process."""
    logger = logging.getLogger(_ROOT)
    if not any(isinstance(handler, _LastResortHandler) for handler in logger.handlers):
        logger.addHandler(_LastResortHandler())


def log_success(text: str, *, watched: bool) -> None:
    """Log the outcome of a successful write.

    Args:
        text: one or several lines.
        watched: True if stderr is visible to a user.
    """
    logger = logging.getLogger(_SUMMARY)
    handlers = [
        handler for handler in _handlers_of(_SUMMARY) if not isinstance(handler, _LastResortHandler)
    ]
    if handlers or logger.isEnabledFor(logging.INFO):
        logger.info("%s", text)
    elif watched:
        sys.stderr.write(f"kafkaprod: {text}\n")
        sys.stderr.flush()
    else:
        record = logger.makeRecord(_SUMMARY, logging.INFO, "", 0, "%s", (text,), None)
        logger.handle(record)


def _handlers_of(name: str) -> Iterator[logging.Handler]:
    """Yield the handlers that receive records of this logger."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None
