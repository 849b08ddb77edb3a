"""A model of exactly-once: all interleavings of its actors' steps, with faults between them.

The decisions are the product's own (`spark_kafka_sink/exactly_once`). What is modelled is who asks
for them when: drivers, tasks and their lost attempts, Kafka's coordinator, the decision log, and
Spark's commit log. Read in this order:

- `world`: the state
- `scenario`: what a search starts from and which faults may happen, and the searches of `make test`
- `context`: the product's decisions, and what every step is given
- `broker`, `actors`: Kafka, the drivers, their tasks, and faults
- `steps`: the table of steps
- `normal`: merges equivalent states
- `search`: the invariants, the search, and how a counterexample is shown
- `planted`: bugs that the search must find
"""
