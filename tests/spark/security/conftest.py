"""The secured Kafka, with a Spark that finds its issuer and its Kerberos realm."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tools.support.spark_session import KRB5_CONFIG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.security.secured import SecuredKafka


@pytest.fixture(scope="session")
def kafka(secured_kafka: SecuredKafka, spark: SparkSession) -> SecuredKafka:
    """With every listener.

    Spark's JVM and its Python workers were started before the realm was there: both read the
    file that KRB5_CONFIG names, and the JVM is told to read it again.
    """
    shutil.copy(secured_kafka.kdc.config, os.environ[KRB5_CONFIG])
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    for option in secured_kafka.java_properties:
        name, _, value = option.removeprefix("-D").partition("=")
        jvm.java.lang.System.setProperty(name, value)
    jvm.sun.security.krb5.Config.refresh()
    return secured_kafka


@pytest.fixture
def topic(kafka: SecuredKafka, unique_topic: str) -> str:
    """Three empty partitions."""
    return kafka.admin.create_topic(unique_topic, 3)
