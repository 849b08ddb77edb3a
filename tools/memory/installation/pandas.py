"""Stub that hides pandas from measured workers, because this sink does not need it.

If installed, pyarrow imports it when PySpark serializes the result of a worker's first task.
"""

raise ImportError("left out: what it needs is told apart")
