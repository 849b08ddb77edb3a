"""Comparative benchmarks: `python -m tools.benchmarks` (see `run`)."""
