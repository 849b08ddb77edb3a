"""Warnings that are logged once per process are logged again in each test."""

import pytest

from spark_kafka_sink.common.logs import warn_once


@pytest.fixture(autouse=True)
def _repeat_warnings() -> None:
    warn_once.cache_clear()
