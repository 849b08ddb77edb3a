"""Benchmarks of whole Spark writes, compared with Spark's own sink and with hand-written code."""
