"""Stub that hides pandas from measured workers, because this sink does not need pandas.

If pandas is installed, pyarrow imports it when PySpark serializes the result of a worker's first
task.
"""

raise ImportError("hidden: the memory of pandas is not measured")
