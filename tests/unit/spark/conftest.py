"""A process without a Spark session."""

import pytest
from pyspark import SparkContext, SparkFiles


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the session of earlier tests in this process."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkFiles, "_sc", None)
