"""Declarative Pipelines, which require Spark Connect, and `progress`, which it lacks."""

import json

from spark_kafka_sink import DeliveryReport, ReportError, progress
from tests.spark.write_methods.write_method import ROWS, Write, WriteMethod

_SPEC = """
name: pipeline
storage: {folder}
libraries:
  - glob:
      include: flow.py
"""
_FLOW = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
dp.create_sink("kafka", "kafkaprod", {options})


@dp.append_flow(target="kafka", name="first")
def first():
    return spark.readStream.text({source})


@dp.append_flow(target="kafka", name="second")
def second():
    return spark.readStream.text({source})
"""


def _pipeline(write: Write) -> None:
    """Run two flows into one sink; this stops the session."""
    from pyspark.pipelines.cli import run  # needs grpcio, which the other tests do without

    write.files()
    reports, source = write.folder / "reports", str(write.folder / "input")
    options = write.options | {"reportPath": str(reports)}
    spec = write.folder / "spark-pipeline.yml"
    spec.write_text(_SPEC.format(folder=json.dumps((write.folder / "storage").as_uri())))
    (write.folder / "flow.py").write_text(_FLOW.format(options=options, source=repr(source)))
    run(spec, full_refresh=[], full_refresh_all=False, refresh=[], dry=False)
    flow_reports = [DeliveryReport.read(path) for path in reports.rglob("batch-0.json")]
    if sorted((report.query_name, report.persisted) for report in flow_reports) != [
        ("first", ROWS),
        ("second", ROWS),
    ]:
        raise ReportError(f"these are not the reports of both flows: {flow_reports}")


def _progress(write: Write) -> None:
    with progress(write.spark):
        write.writer().save()


CONNECT = (
    WriteMethod("progress", _progress, error="requires the Spark driver in this process"),
    WriteMethod("pipeline", _pipeline, rows=2 * ROWS),
)
"""In this order, because the last one stops the session."""
