"""Measure the CPU time of each stage of a Spark write in the worker."""
