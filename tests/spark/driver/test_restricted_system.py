"""A system in FIPS mode that refuses files in memory, and whose locale is not UTF-8."""

import os
from pathlib import Path

import pytest

from tests.support.python import run_python
from tools.support.spark_session import KRB5_CONFIG

WAIT_S = 300
HASHES = {
    "removed": "del vars(hashlib)[name]",
    "restricted": "setattr(hashlib, name, refuse)",
}
RESTRICTIONS = """
import hashlib, os

def refuse(*_args, **_options):
    raise ValueError("[digital envelope routines] unsupported")

def new(name, *args, _new=hashlib.new, **options):
    return (_new if name.lower().startswith("sha") else refuse)(name, *args, **options)

def memfd_create(*_args):
    raise PermissionError(1, "Operation not permitted")

hashlib.new, os.memfd_create = new, memfd_create
for name in ("md5", "blake2b", "blake2s"):
    """
JOB = """
import locale, sys
from pyspark.sql import SparkSession
from spark_kafka_sink import EmbeddedBroker, error_of, register

assert locale.getpreferredencoding(False) != "UTF-8", "the locale is not restricted"
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
register(spark)
for settings in ({"sasl": {"alice": "s3cret"}}, {"client_certificates": "required"}):
    with EmbeddedBroker(topics={"t": 1}, tls=True, **settings) as kafka:
        options = kafka.client_options() | {"summary": "full", "reportPath": sys.argv[1]}
        if "sasl" in settings:
            login = options.pop("kafka.sasl.jaas.config").replace("s3cret", "env:PASSWORD")
            options["kafka.sasl.jaas.config"] = login
        rows = spark.range(3).selectExpr("string(id) AS key", "'\\u00fc' AS value")
        options["topic"] = "t"
        sink = rows.write.format("kafkaprod").mode("append").options(**options)
        sink.options(deliveryGuarantee="exactly-once", transactionalIdPrefix="job").save()
        print("written", len(kafka.records("t")))
        bad = rows.selectExpr("value", "'t\\u00fc\\u4e2d' AS topic").write.format("kafkaprod")
        options.pop("topic")
        try:
            bad.mode("append").options(**options).save()
        except Exception as error:
            print("error", ascii(str(error_of(error))))
spark.stop()
"""


@pytest.mark.parametrize("hashes", ["removed", pytest.param("restricted", marks=pytest.mark.deep)])
def test_write(tmp_path: Path, hashes: str) -> None:
    job, site = tmp_path / "job.py", tmp_path / "sitecustomize.py"
    job.write_text(JOB)
    site.write_text(RESTRICTIONS + HASHES[hashes])
    variables = {name: text for name, text in os.environ.items() if not name.startswith("PYSPARK_")}
    variables.pop(KRB5_CONFIG, None)
    variables |= {
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
        "PASSWORD": "s3cret",
    }
    variables["PYTHONPATH"] = str(tmp_path)
    # Spark 4.0 would find the package in this folder with a Python of the PATH.
    ended = run_python(
        job, tmp_path / "reports", env=variables, cwd=tmp_path, timeout_s=WAIT_S, encoding="utf-8"
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout.count("written 3") == 2
    assert ended.stdout.count(r"contains 't\xfc\u4e2d', which is not a valid topic name") == 2, (
        ended.stdout
    )
