"""Assertions for tests of your own jobs; they require the extra `testing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_kafka_sink.common.arguments import FRAME, check_argument
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.extras import import_extra

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_kafka_sink.broker.embedded import EmbeddedBroker

COMPARED: Final = ("key", "value", "topic", "headers")
"""Columns that are compared if the frame has them."""


def assert_written(
    frame: DataFrame, broker: EmbeddedBroker, topic: str | None = None, **chispa: Any
) -> None:
    """Check that a broker's topics contain the rows of a frame, and nothing else.

    Keys, values, topics and headers are compared by `chispa.assert_df_equality`. Columns that the
    frame does not have are not compared, and neither are partitions and the order of rows. The
    records are those that a read_committed consumer receives::

        def test_my_job(spark, kafka_broker):
            run_my_job(kafka_broker.bootstrap_servers)
            wanted = spark.createDataFrame([("k", "v")], "key string, value string")
            assert_written(wanted, kafka_broker, "events")

    Args:
        frame: the expected rows, with the sink's column names; evaluating it must be repeatable.
        broker: the broker that they were written to.
        topic: the topic to read; None for the topics in the column `topic`.
        chispa: options of `assert_df_equality` that override the defaults used here.

    Raises:
        AssertionError: rows are missing, unexpected or different; one of chispa's own classes.
        ConfigError: an argument is wrong, chispa is not installed, or there is neither a topic nor
            a column `topic`.
        UnknownTopicError: the topic does not exist.
    """
    call = "assert_written(frame, broker)"
    check_argument(call, frame, FRAME, ("columns", "sparkSession"))
    check_argument(call, broker, "an EmbeddedBroker", ("records",))
    chispa_package = import_extra("testing", "chispa", "assert_written()")
    names = [name for name in COMPARED if name in frame.columns]
    if topic is not None:
        topics = [topic]
        names = [name for name in names if name != "topic"]
    elif "topic" in names:
        topics = sorted(row["topic"] for row in frame.select("topic").distinct().collect())
    else:
        raise ConfigError(
            "assert_written() needs a topic: the frame has no column `topic`", hint="Give its name."
        )
    found = broker.records(*topics).to_spark(frame.sparkSession)
    # simpleString() drops nullability: every type is nullable throughout, as in the rows read.
    types = {name: frame.schema[name].dataType.simpleString() for name in names}
    written, wanted = (
        each.select(*(each[name].cast(kind).alias(name) for name, kind in types.items()))
        for each in (found, frame)
    )
    settings = {"ignore_row_order": True, "ignore_nullable": True, "ignore_metadata": True}
    try:
        chispa_package.assert_df_equality(written, wanted, **{**settings, **chispa})
    except (chispa_package.DataFramesNotEqualError, chispa_package.SchemasNotEqualError) as error:
        error.add_note("df1 is what the broker has, df2 the frame that was wanted")
        raise
