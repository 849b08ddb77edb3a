"""Tests that inject random, reproducible faults between clients and real Kafka nodes.

- `proxy`: proxies between clients and brokers
- `proxy_faults`: the faults that they inject into requests and responses
- `cluster`: the clusters to which the proxies connect
- `harness`: runs the plans of a scenario set, and prints the results
- `producer`: scenarios with producer sessions (`make torture`)
- `streams`: scenarios with Spark streams and jobs (`make torture-eos`)
- `fuzz`: fuzzing of the decoders (`make fuzz`)
"""
