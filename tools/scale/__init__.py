"""Writes of many tasks into many partitions on many brokers: `python -m tools.scale`.

Reading order: workload (a write's size), costs (what one of each thing costs), estimate (pure:
from both to figures) and limits (which of them is exceeded first, and what moves it); measure and
messages (the costs, from the product's own code), cluster (50 embedded brokers as a check), page
(docs/scale.md).
"""
