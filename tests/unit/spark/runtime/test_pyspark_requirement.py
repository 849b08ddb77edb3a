"""Supported releases of PySpark."""

import pytest

from spark_kafka_sink.spark.runtime.pyspark_requirement import reject_older


@pytest.mark.parametrize("version", ["3.5.0", "4.10.1", "5.0.0.dev1", "unknown"])
def test_supported_release_is_accepted(version: str) -> None:
    reject_older(version)


@pytest.mark.parametrize("version", ["3.4.4", "2.5"])
def test_unsupported_release_is_rejected(version: str) -> None:
    with pytest.raises(ImportError, match=version):
        reject_older(version)
