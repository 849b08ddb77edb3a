"""Tests that inject random, reproducible faults between clients and real Kafka nodes.

- `proxy`: proxies that inject faults into requests and responses
- `cluster`: the clusters to which the proxies connect
- `harness`: runs the plans of a scenario set, and records the results
- `producer`: scenarios with producer sessions (`make torture`)
- `streams`: scenarios with Spark streams and jobs (`make torture-eos`)
- `fuzz`: fuzzing of the decoders (`make fuzz`)
"""
