"""A model of exactly-once: all interleavings of its actors' steps, with faults between them.

The decisions are the product's own (`spark_kafka_sink/exactly_once`). The model covers the order of
their callers: drivers, tasks and their lost attempts, Kafka's coordinator, the decision log, and
Spark's commit log. Read in this order:

- `world`: the state
- `scenario`: start states and faults of the searches, and the searches of `make test`
- `context`: the product's decisions, and the inputs of every step
- `broker`, `actors`: Kafka, the drivers, their tasks, and faults
- `steps`: the table of steps
- `normal`: merges equivalent states
- `search`: the invariants, the search, and the description of counterexamples
- `planted`: bugs that the search must find
"""
