"""Estimate writes of many tasks, partitions and brokers: `python -m tools.scale`.

- `estimate`: the size of a write, unit costs, the figures that follow from both, and their limits
- `measure`: the unit costs of the product's own code, and a check on 50 embedded brokers
- `__main__`: the tables of docs/scale.md
"""
