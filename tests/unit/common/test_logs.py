"""A silenced logger drops only what the silencing thread logs."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_kafka_sink.common.logs import quiet_log

NAME = "spark_kafka_sink.quiet_log_test"


def test_other_threads_and_loggers_are_not_silenced(caplog: pytest.LogCaptureFixture) -> None:
    """A stream's task logs an outage while a different write checks its brokers."""
    loggers = [logging.getLogger(name) for name in (NAME, f"{NAME}.child", f"{NAME}_other")]
    with ThreadPoolExecutor(1) as thread, quiet_log(NAME), quiet_log(NAME):
        for logger in loggers:
            logger.warning("silenced")
            thread.submit(logger.warning, "a stream").result()
    loggers[0].warning("afterwards")
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        (NAME, "a stream"),
        (f"{NAME}.child", "a stream"),
        (f"{NAME}_other", "silenced"),
        (f"{NAME}_other", "a stream"),
        (NAME, "afterwards"),
    ]
