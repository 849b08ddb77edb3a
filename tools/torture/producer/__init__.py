"""Run producer sessions under network and cluster faults: the scenarios of `make torture`.

- `plan`: the plan of a run, which is drawn from its seed
- `writer`: the sessions of a run, and their results
- `run`: executes a plan on a cluster
- `check`: the conditions that must hold after a run
"""
