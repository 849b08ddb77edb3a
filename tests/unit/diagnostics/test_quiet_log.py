"""A log that is kept away speaks again, whoever ends first."""

from __future__ import annotations

import logging

from spark_kafka_sink.diagnostics.examination import quiet_log

NAME = "spark_kafka_sink.quiet_log_test"


def test_the_level_is_given_back_by_the_last_one() -> None:
    log = logging.getLogger(NAME)
    log.setLevel(logging.INFO)
    first, second = quiet_log(NAME), quiet_log(NAME)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert log.level == logging.CRITICAL
    second.__exit__(None, None, None)
    assert log.level == logging.INFO
