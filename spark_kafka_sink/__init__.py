"""A Kafka sink for PySpark with its own producer: `df.write.format("kafkaprod")`.

Spark finds the format without an import. It accepts the columns and options of `format("kafka")`.
The following example writes a batch, which returns when every record is acknowledged, and a
stream::

    kafka = {"kafka.bootstrap.servers": "localhost:9092", "topic": "events"}

    events = spark.range(1000).selectExpr("cast(id AS string) AS key", "uuid() AS value")
    write = events.write.format("kafkaprod").options(**kafka, reportPath="report.json")
    write.mode("append").save()

    ticks = spark.readStream.format("rate").load().selectExpr("cast(timestamp AS string) AS value")
    stream = ticks.writeStream.format("kafkaprod").options(**kafka, checkpointLocation="checkpoint")
    stream.start().awaitTermination(10)

Write exactly once for read_committed readers, despite failures and retries (docs/exactly-once.md)::

    once = {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "orders"}
    write.options(**once, batchId="2026-11-20").mode("append").save()

Read the records of a topic; the function accepts the options of a write::

    from spark_kafka_sink import read_records

    read_records("events", limit=10, **kafka).to_pandas()

Show what was delivered, and start a broker for tests and demos::

    from spark_kafka_sink import DeliveryReport, EmbeddedBroker, summarize

    with EmbeddedBroker(topics={"events": 4}) as broker:
        kafka = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "events"}
        ...
    report = DeliveryReport.read("report.json")
    print(summarize(report))

Errors are subclasses of `KafkaProdError`. All names are loaded on first use.

To read the code, follow the path of a record, which docs/design.md describes file by file:

- On the driver, `config` and `spark` parse the options and plan the write.
- In a task, `spark` passes the rows to `producer` (with its subpackages append, buffer and send,
  and transactions for exactly-once writes), which uses `records`, `client` and `protocol` of
  `kafka`.
- At the end, `report` merges the tasks' reports on the driver. For exactly-once writes,
  `exactly_once` commits the tasks' open transactions with requests of `kafka.admin`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.version import __version__

if TYPE_CHECKING:
    from spark_kafka_sink.broker.embedded import EmbeddedBroker
    from spark_kafka_sink.common.delivery_status import DeliveryStatus
    from spark_kafka_sink.common.errors import (
        AuthenticationError,
        AuthorizationError,
        BrokerUnavailableError,
        BufferTimeoutError,
        ColumnError,
        ConfigError,
        DeliveryError,
        FencedError,
        KafkaProdError,
        ProtocolError,
        RecordTooLargeError,
        ReportError,
        SchemaRegistryError,
        TlsError,
        TornTransactionError,
        TransactionError,
        UnknownTopicError,
    )
    from spark_kafka_sink.reading import read_records
    from spark_kafka_sink.report.advice.advice import Advice
    from spark_kafka_sink.report.advice.advice_rules import advise
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.report.display.summary import summarize
    from spark_kafka_sink.report.write_status import WriteStatus
    from spark_kafka_sink.spark.datasource import KafkaProdDataSource
    from spark_kafka_sink.spark.kafka_partitions import repartition_by_kafka_partition
    from spark_kafka_sink.spark.micro_batches import micro_batch_writer
    from spark_kafka_sink.spark.registration import register
    from spark_kafka_sink.spark.reports.last_report import last_report
    from spark_kafka_sink.spark.reports.progress import progress
    from spark_kafka_sink.spark.reports.write_progress import WriteProgress
    from spark_kafka_sink.spark.runtime.spark_errors import error_of
    from spark_kafka_sink.spark.warm_up import warm_up
    from spark_kafka_sink.spark.write import write
    from spark_kafka_sink.testing import assert_written

__all__ = [
    "Advice",
    "AuthenticationError",
    "AuthorizationError",
    "BrokerUnavailableError",
    "BufferTimeoutError",
    "ColumnError",
    "ConfigError",
    "DeliveryError",
    "DeliveryReport",
    "DeliveryStatus",
    "EmbeddedBroker",
    "FencedError",
    "KafkaProdDataSource",
    "KafkaProdError",
    "ProtocolError",
    "RecordTooLargeError",
    "ReportError",
    "SchemaRegistryError",
    "TlsError",
    "TornTransactionError",
    "TransactionError",
    "UnknownTopicError",
    "WriteProgress",
    "WriteStatus",
    "__version__",
    "advise",
    "assert_written",
    "error_of",
    "last_report",
    "micro_batch_writer",
    "progress",
    "read_records",
    "register",
    "repartition_by_kafka_partition",
    "summarize",
    "warm_up",
    "write",
]

_MODULES = {
    "Advice": "spark_kafka_sink.report.advice.advice",
    "DeliveryReport": "spark_kafka_sink.report.delivery_report",
    "DeliveryStatus": "spark_kafka_sink.common.delivery_status",
    "EmbeddedBroker": "spark_kafka_sink.broker.embedded",
    "KafkaProdDataSource": "spark_kafka_sink.spark.datasource",
    "WriteProgress": "spark_kafka_sink.spark.reports.write_progress",
    "WriteStatus": "spark_kafka_sink.report.write_status",
    "advise": "spark_kafka_sink.report.advice.advice_rules",
    "assert_written": "spark_kafka_sink.testing",
    "error_of": "spark_kafka_sink.spark.runtime.spark_errors",
    "last_report": "spark_kafka_sink.spark.reports.last_report",
    "micro_batch_writer": "spark_kafka_sink.spark.micro_batches",
    "progress": "spark_kafka_sink.spark.reports.progress",
    "read_records": "spark_kafka_sink.reading",
    "register": "spark_kafka_sink.spark.registration",
    "repartition_by_kafka_partition": "spark_kafka_sink.spark.kafka_partitions",
    "summarize": "spark_kafka_sink.report.display.summary",
    "warm_up": "spark_kafka_sink.spark.warm_up",
    "write": "spark_kafka_sink.spark.write",
}
"""Modules of the names in `__all__`. No other names can be imported."""


def load_ipython_extension(shell: object) -> None:
    """Show errors of this package without a traceback, after `%load_ext spark_kafka_sink`."""
    from spark_kafka_sink.spark.runtime.spark_errors import show_errors_briefly

    show_errors_briefly(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Show errors as IPython shows them by default."""
    shell.set_custom_exc((), None)


if not TYPE_CHECKING:  # A type checker reads the imports above.

    def __getattr__(name: str) -> object:
        """Load a name on first use, because Spark's workers import this package often."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULES.get(name, f"{__name__}.common.errors")), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Return all names.

        Without PySpark, names that need it are omitted, so that `help` works.
        """
        from importlib.util import find_spec

        spark = f"{__name__}.spark."
        missing = {name for name, module in _MODULES.items() if module.startswith(spark)}
        return sorted({*globals(), *__all__} - (set() if find_spec("pyspark") else missing))
