"""Estimate the costs of writes with many tasks, partitions and brokers: `python -m tools.scale`.

- `estimate`: the estimates, computed from workloads and unit costs, and their limits
- `measure`: measures the unit costs of the product's code, and checks with 50 embedded brokers
- `__main__`: writes the tables of docs/scale.md
"""
