"""Side-by-side measurements: `python -m tools.benchmarks` (see `run`)."""
