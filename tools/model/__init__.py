"""A model of exactly once: every order of its parties' steps is tried, with faults between them.

The decisions are the product's own (`spark_kafka_sink/exactly_once`). What is modelled is who asks
for them when: drivers, tasks and their lost attempts, Kafka's coordinator, the decision log, and
Spark's commit log. Read in this order: `world` (the state), `scenario` and `rules` (what may
happen), `broker` and `parties/` (who does what), `steps` (the table of it), `normal`, `search`,
`invariants`, `scenarios`, `planted` (bugs that the search must find), `trace`.
"""
