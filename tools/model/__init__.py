"""A model of exactly-once: all interleavings of its actors' steps, with faults between them.

The decisions come from the product (`spark_kafka_sink/exactly_once`). The model covers the order of
their callers: drivers, tasks and their lost attempts, Kafka's coordinator, the decision log, and
Spark's commit log. Read in this order:

- `world`: the state
- `scenario`: start states and faults of the searches, and the searches of `make test`
- `broker`: transactions at their coordinators
- `context`: the product's decisions, and a driver's turn in a world
- `steps`: the steps of drivers and tasks, and the faults
- `normal`: merges equivalent states
- `search`: the invariants, the search, and the description of counterexamples
- `planted`: bugs that the search must find
"""
