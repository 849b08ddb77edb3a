"""Spark's Data Source V2 API on the producer: `format("kafkaprod")`.

Reading order: datasource, on the driver, makes a writer from the options (table has those of SQL)
and the schema (contract); writer runs in the tasks and commits on the driver. In a task, columns
turns Arrow batches into rows, with one file per kind of column. On the driver, commit_messages
merges what the tasks report, and publication shows and keeps it. exactly_once has the writers of
deliveryGuarantee=exactly-once.
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
