"""Inject seeded faults at steps of a stream into a real Kafka: scenarios of `make torture-eos`.

- `scenarios`: the steps, actions and kinds of fault, and how they combine
- `plan`: what a seed makes of a scenario, and the records of a run
- `run`, `supervisor`, `actions`: carry a plan out with the drivers of `drivers` and `driver_child`
- `check`: foreign readers, and what must hold after a run
- `campaign`, `table`: many runs side by side, and the table of their results
- `planted`: bugs that the runs must find
- `injection`: loaded by every process of a run, so that it can be stopped at a step
"""
