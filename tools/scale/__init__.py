"""Estimate the costs of writes with many tasks, partitions and brokers: `python -m tools.scale`.

- `estimate`: the estimates, computed from workloads and measured costs, and their limits
- `__main__`: measures the costs of a task, and writes the tables of docs/scale.md
"""
