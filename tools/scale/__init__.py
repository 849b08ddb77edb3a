"""Estimate the costs of writes with many tasks, partitions and brokers: `python -m tools.scale`.

- `estimate`: the estimates, computed from workloads and measured costs, and their limits
- `measure`: measures the costs of a task by writing to up to 100 embedded brokers
- `__main__`: writes the tables of docs/scale.md
"""
