"""Imported by Python at start if this folder is in PYTHONPATH."""

import sys

from tools.torture.streams.injection.hooks import install

# What Spark puts there is compiled again by each process; installed, pyspark is compiled already.
sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]
install()
