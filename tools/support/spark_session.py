"""The Spark session for tests."""

from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession

from tools.support.jars import SPARK_CONNECT, JarSet, ensure
from tools.support.java import QUICK_JVM

KRB5_CONFIG = "KRB5_CONFIG"
"""Environment variable with the path of the Kerberos configuration, for Python's library."""


def connect() -> SparkSession:
    """Start a Spark Connect server with two cores, and return a session of it."""
    builder = SparkSession.builder.remote("local[2]")
    if SPARK_CONNECT:
        paths = (str(path) for jar_set in SPARK_CONNECT for path in ensure(jar_set).paths())
        builder = builder.config("spark.jars", ",".join(paths))
    return builder.getOrCreate()


def start(folder: Path, jars: Iterable[JarSet]) -> SparkSession:
    """Start a Spark session with these archives that stores all of its files in `folder`."""
    events = folder / "events"
    events.mkdir()
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.driver.extraJavaOptions": f"{' '.join(QUICK_JVM)} -Dderby.system.home={folder}",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": ",".join(str(path) for jar_set in jars for path in ensure(jar_set).paths()),
    }
    builder = SparkSession.builder.master("local[2]").appName("tests")
    session = builder.config(map={**settings}).getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session
