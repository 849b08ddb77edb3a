"""Run producer sessions under network and cluster faults: the scenarios of `make torture`.

- `plan`: the actions of a run, drawn from its seed, and the writer that does it
- `run`: executes the plan
- `check`: the conditions that must hold afterwards
- `planted`: bugs that the runs must find
"""
