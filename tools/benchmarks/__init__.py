"""Comparative benchmarks: `python -m tools.benchmarks`, which runs the parts in `__main__`.

- `results`: samples, their series, contestants as processes, and the description of the machine
- `tables`: tables of series, and targets
- `kafka`: the measured Kafka, and new topics for each run
- `payload`: the records to send
- `core`: the producer core, compared with librdkafka and Java's producer
- `spark`: whole Spark writes, compared with Spark's own sink and with hand-written code
- `exactly_once`: the cost of exactly-once delivery
- `encryption`: the cost of TLS
- `page`: the tables of docs/benchmarks.md
- `comparison`: the README's table of rates
- `broker`: the embedded broker (`python -m tools.benchmarks.broker`)
- `installation`: stubs for modules that are installed only for tests
"""
