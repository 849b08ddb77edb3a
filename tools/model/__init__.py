"""A model of exactly-once writes, which is searched for all interleavings of steps and faults.

The model calls the decision functions of the product (`spark_kafka_sink/exactly_once`). It
simulates drivers, tasks and their lost attempts, Kafka's coordinator, the decision log, and Spark's
commit log. In reading order:

- `model_state`: the state of the model, the transactions at their coordinators, and equivalent
  states
- `scenario`: start states and faults of the searches, and the searches of `make test`
- `turn`: a driver's turn in a world, with the product's decision functions
- `steps`: the steps of drivers and tasks, and the faults
- `search`: the invariants, the search, descriptions of counterexamples, and planted bugs
"""
