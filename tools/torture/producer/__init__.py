"""Run producer sessions under network and cluster faults: the scenarios of `make torture`.

- `plan`: what a run does, drawn from its seed, and the writer that does it
- `run`: executes the plan
- `check`: what must hold afterwards
- `planted`: bugs that the runs must find
"""
