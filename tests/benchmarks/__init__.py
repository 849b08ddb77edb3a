"""Side-by-side measurements: `python -m tests.benchmarks` (see `run`)."""
