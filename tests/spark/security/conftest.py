"""The secured Kafka, with Spark configured for its token issuer and Kerberos realm."""

import os
import shutil

import pytest
from pyspark.sql import SparkSession

from tests.support.security.secured_kafka import SecuredKafka
from tools.support.spark_session import KRB5_CONFIG


@pytest.fixture(scope="session")
def kafka(secured_kafka: SecuredKafka, spark: SparkSession) -> SecuredKafka:
    """Return the cluster with all listeners.

    Spark's JVM and Python workers start before the realm exists. They read the file in KRB5_CONFIG,
    which is replaced here; the JVM must refresh it.
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
    """Create an empty topic with three partitions."""
    return kafka.admin.create_topic(unique_topic, 3)
