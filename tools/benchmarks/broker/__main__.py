"""`python -m tools.benchmarks.broker`."""

from __future__ import annotations

from tools.benchmarks.broker.measuring import main

main()
