"""Settings of spark-submit or a notebook, limited to loopback and two cores."""

import sys

from tools.docs.pages import ROOT

# Settings of `spark-submit` or a notebook, limited to loopback and two cores.
SETTINGS = {
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYTHONPATH": str(ROOT),
}
