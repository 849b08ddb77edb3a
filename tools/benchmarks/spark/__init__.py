"""Benchmarks of whole Spark writes against Spark's own sink and hand-written code."""
