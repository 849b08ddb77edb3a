"""Assertions for tests of one's own jobs; they need the extra `testing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_kafka_sink.common.arguments import FRAME, check_argument
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.extras import import_extra

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_kafka_sink.broker.embedded import EmbeddedBroker

COMPARED: Final = ("key", "value", "topic", "headers")
"""Columns that are compared, as far as the frame has them."""


def assert_written(
    frame: DataFrame, broker: EmbeddedBroker, topic: str | None = None, **chispa: Any
) -> None:
    """Check that a broker's topics hold the rows of a frame, and nothing else.

    Keys, values, topics and headers are compared by `chispa.assert_df_equality`; a column that the
    frame does not have is not compared, and neither are partitions. The order of rows does not
    count. What a read_committed consumer gets is what is there::

        def test_my_job(spark, kafka_broker):
            run_my_job(kafka_broker.bootstrap_servers)
            wanted = spark.createDataFrame([("k", "v")], "key string, value string")
            assert_written(wanted, kafka_broker, "events")

    Args:
        frame: the rows wanted, by the sink's column names; it has to give the same rows each time.
        broker: where they were written.
        topic: the topic that is read; None for those of the column `topic`.
        chispa: options of `assert_df_equality` other than its defaults here.

    Raises:
        AssertionError: rows are missing, are too many or differ; of chispa's own classes.
        ConfigError: an argument is wrong, chispa is not installed, or there is neither a topic nor
            a column `topic`.
        UnknownTopicError: there is no such topic.
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
    # By their names types are nullable all through, as those of what is read are.
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
