"""`python -m tools.benchmarks`."""

from __future__ import annotations

from tools.benchmarks.run import main

main()
