"""Inject faults into Spark streams that write to a real Kafka (`make torture-eos`).

- `scenarios`: the steps, the actions and the kinds of faults, and how they are combined
- `plan`: the plan of a run, which is drawn from a seed and a scenario, and the records of a run
- `run`: executes plans, also with bugs that the runs must find
- `supervisor`: starts drivers until a run is over
- `driver`, `stops`, `actions`: its drivers, the stops that they reach, and what happens there
- `driver_child`: the Spark drivers of the runs
- `check`: the checks of a run
- `injection`: hooks that stop the processes of a run at steps
"""
