"""Estimate writes of many tasks, partitions and brokers: `python -m tools.scale`.

- `estimate`: the size of a write, unit costs, the figures that follow from both, and their limits
- `measure`: the unit costs, measured with the product's own code
- `cluster`: a check on 50 embedded brokers
- `page`: the tables of docs/scale.md
"""
