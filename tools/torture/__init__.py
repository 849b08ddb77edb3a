"""Tests that inject random, reproducible faults between clients and real Kafka nodes.

- `proxy`: proxies that inject faults into requests and responses
- `cluster`: the clusters to which the proxies connect
- `ledger`: the results of all runs
- `harness`: runs the plans of a scenario set
- `producer`: scenarios with producer sessions (`make torture`)
- `streams`: scenarios with Spark streams and jobs (`make torture-eos`)
- `fuzz`: fuzzing of the decoders (`make fuzz`)
"""
