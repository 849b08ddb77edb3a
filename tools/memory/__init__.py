"""Measure the memory of a task's Python worker for different kinds of writes: `make memory`."""
