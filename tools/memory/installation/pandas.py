"""Stub that hides pandas from measured workers, because this sink does not need it.

Where it is installed, pyarrow imports it when PySpark packs the answer of a worker's first task.
"""

raise ImportError("left out: what it needs is told apart")
