"""Exceptions of another JVM in a process with a Spark session."""

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tools.support.java import kafka_jvm


def test_only_sparks_exceptions_are_converted(spark: SparkSession) -> None:
    with kafka_jvm() as other:
        for _ in range(50):  # Spark's JVM has objects with the same IDs
            with pytest.raises(Py4JJavaError, match="NumberFormatException"):
                other.packages.java.lang.Integer.parseInt("one")
        with pytest.raises(AnalysisException, match="no_such_column"):
            spark.range(1).select("no_such_column")
