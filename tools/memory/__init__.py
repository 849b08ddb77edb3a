"""Measure the memory that a task's Python worker needs, for all kinds of writes: `make memory`."""
