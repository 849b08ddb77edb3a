"""A silenced logger is restored after the last user, in any order."""

from __future__ import annotations

import logging

from spark_kafka_sink.diagnostics.broker_queries import quiet_log

NAME = "spark_kafka_sink.quiet_log_test"


def test_last_user_restores_the_level() -> None:
    log = logging.getLogger(NAME)
    log.setLevel(logging.INFO)
    first, second = quiet_log(NAME), quiet_log(NAME)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert log.level == logging.CRITICAL
    second.__exit__(None, None, None)
    assert log.level == logging.INFO
