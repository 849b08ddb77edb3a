"""Benchmarks, torture runs, comparisons and checks, which are not part of the package."""
