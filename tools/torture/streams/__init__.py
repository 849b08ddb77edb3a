"""Inject seeded faults at steps of a stream into a real Kafka: scenarios of `make torture-eos`.

- `scenarios`: the steps, actions and kinds of fault, and how they combine
- `plan`: the plan that a seed draws from a scenario, and the records of a run
- `run`, `supervisor`: execute plans, several at once, with the drivers of `drivers` and
  `driver_child`
- `check`: the checks of a run
- `planted`: bugs that the runs must find
- `injection`: loaded by every process of a run, to stop it at a step
"""
