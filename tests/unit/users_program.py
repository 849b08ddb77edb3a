"""A user's program with every public name, for the type checker: nothing in here runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

from pyspark.errors import PySparkException

from spark_kafka_sink import (
    Advice,
    AuthenticationError,
    AuthorizationError,
    BrokerUnavailableError,
    BufferTimeoutError,
    ColumnError,
    ConfigError,
    DeliveryError,
    DeliveryReport,
    DeliveryStatus,
    EmbeddedBroker,
    FencedError,
    KafkaProdDataSource,
    KafkaProdError,
    ProtocolError,
    RecordTooLargeError,
    ReportError,
    SchemaRegistryError,
    TlsError,
    TornTransactionError,
    TransactionError,
    UnknownTopicError,
    WriteProgress,
    WriteStatus,
    __version__,
    advise,
    assert_written,
    error_of,
    last_report,
    micro_batch_writer,
    progress,
    read_records,
    register,
    repartition_by_kafka_partition,
    summarize,
    warm_up,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def save(spark: SparkSession, rows: DataFrame, options: dict[str, str]) -> DeliveryReport:
    spark.dataSource.register(KafkaProdDataSource)
    register(spark)
    warm_up(spark).join()
    frame = repartition_by_kafka_partition(rows, options, partitions={"events": 4})
    assert_type(frame, "DataFrame")
    try:
        with progress(spark, interval_s=1, show=show):
            frame.write.format("kafkaprod").options(**options).mode("append").save()
    except PySparkException as exception:
        told(error_of(exception))
    assert_type(write(frame, options), DeliveryReport)
    return last_report(spark=spark)


def show(seen: WriteProgress) -> None:
    assert_type(seen.persisted, int)
    assert_type(seen.rate, float)


def told(error: KafkaProdError | None) -> str | None:
    match error:
        case DeliveryError(topic=topic, statuses=statuses):
            assert_type(topic, str | None)
            return topic if any(s.status is DeliveryStatus.NOT_PERSISTED for s in statuses) else ""
        case (
            ConfigError()
            | ColumnError()
            | ReportError()
            | SchemaRegistryError()
            | UnknownTopicError()
        ):
            return error.hint
        case AuthenticationError() | AuthorizationError() | TlsError() | BrokerUnavailableError():
            return error.broker
        case BufferTimeoutError() | ProtocolError() | RecordTooLargeError():
            return error.kafka_error
        case TornTransactionError() | TransactionError() | FencedError():
            return error.message
        case _:
            return None


def stream(counts: DataFrame, options: dict[str, str]) -> StreamingQuery:
    writer = counts.writeStream.outputMode("update").foreachBatch(micro_batch_writer(options))
    query = writer.option("checkpointLocation", "checkpoint").start()
    assert_type(last_report(query), DeliveryReport)
    return query


def look(report: DeliveryReport) -> list[Advice]:
    assert_type(report.status, WriteStatus)
    assert_type(report.persisted + report.dead_lettered, int)
    assert_type([part.topic for part in report.partitions], list[str])
    assert_type(DeliveryReport.read("report.json") + report, DeliveryReport)
    assert_type(summarize(report) + __version__, str)
    return advise(report)


def checked(frame: DataFrame) -> dict[str, str]:
    with EmbeddedBroker(topics={"events": 4}) as broker:
        assert_written(frame, broker, "events")
        assert_type(broker.end_offsets("events"), list[int])
        return {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "events"}


def read(spark: SparkSession, options: dict[str, Any]) -> int:
    records = read_records("events", limit=10, **options)
    assert_type(records[0].key, bytes | None)
    records.to_spark(spark)
    return records.to_arrow().num_rows
