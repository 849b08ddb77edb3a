"""Imported by Python at start if this folder is in PYTHONPATH."""

import sys

from tools.torture.streams.injection.hooks import install

# Each process would recompile Spark's archives; the installed pyspark is already compiled.
sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]
install()
