"""Benchmarks, torture runs, comparisons and checks; not shipped."""
