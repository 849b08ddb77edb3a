"""How the sink's lines look where nobody has set up logging, as in Spark's Python workers.

Python would print the message alone, among lines of Spark's that say when, how bad and from whom.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = "spark_kafka_sink"
_FORMAT: Final = "%(asctime)s{} %(log4j)s %(name)s: %(message)s"
_TIME: Final = "%y/%m/%d %H:%M:%S"
_LOG4J: Final = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}


class LastResort(logging.Handler):
    """Writes to stderr as Spark's own log4j2-defaults.properties has it.

    It is silent wherever a record has another handler, whenever that was added.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_FORMAT.format(""), _TIME))
        self._exact = logging.Formatter(_FORMAT.format(".%(msecs)03d"), _TIME)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless somebody else does."""
        if any(handler is not self for handler in _handlers(record.name)):
            return
        record.log4j = _LOG4J.get(record.levelno, record.levelname)
        is_event = record.levelno < logging.WARNING  # of kafka.debug: many in a second
        try:
            line = self._exact.format(record) if is_event else self.format(record)
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 as every handler of logging: no line may end a write
            self.handleError(record)


def install() -> None:
    """Have the sink's lines look like Spark's, once per process."""
    logger = logging.getLogger(ROOT)
    if not any(isinstance(handler, LastResort) for handler in logger.handlers):
        logger.addHandler(LastResort())


def _handlers(name: str) -> Iterator[logging.Handler]:
    """Those that a record of this logger comes to."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None
