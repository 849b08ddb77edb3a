"""Spark's Data Source V2 API on top of the producer: `format("kafkaprod")`.

On the driver, `datasource` creates a writer from the options and the schema. The writer is pickled
to the tasks, which write Arrow batches, and commits or aborts on the driver.

In reading order:

- `datasource`: the data source that Spark loads
- `table`: options of tables in SQL, carried by the schema
- `contract`: the columns that a DataFrame must have
- `plan`: work at planning time, in a Python worker on the driver
- `writer`: the at-least-once writers of batches and micro-batches
- `columns`: Spark's Arrow batches converted to the producer's rows
- `commit_messages`: the commit messages of tasks, and their merged report
- `exactly_once`: the writers of deliveryGuarantee=exactly-once
- `reports`: summary, report and metrics of a write, and `last_report`
- `progress`: the progress of a running write
- `driver`: functions that programs call on the driver
- `session_conf`: session settings and the driver's log level, as a Python worker sees them
- `shipped_files`: files of security options that Spark ships
- `shown_secrets`: warnings about secrets in options that Spark would display
- `continuous_processing`: detects the unsupported `trigger(continuous=...)`
"""

from spark_kafka_sink.common.extras import missing, refuse_older
from spark_kafka_sink.spark.reports.log_lines import install as _show_origin

try:
    from pyspark import __version__ as _version
except ModuleNotFoundError as _error:
    if _error.name != "pyspark":
        raise
    raise missing() from None
refuse_older(_version)
_show_origin()
