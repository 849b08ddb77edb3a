"""Measure the CPU time of each stage of a Spark write, inside the worker."""
