"""Python imports this module on startup if this folder is in PYTHONPATH."""

import sys

from tools.torture.streams.injection.hooks import install

# Each process would recompile the archives of Spark; the installed pyspark is already compiled.
sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]
install()
