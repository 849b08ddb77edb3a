"""Inject faults, drawn from seeds, between clients and real Kafka nodes, and check the output.

- `proxy`: proxies that inject faults into requests and responses
- `cluster`: the clusters behind the proxies
- `ledger`: the results of all runs
- `producer`: scenarios of producer sessions (`make torture`)
- `streams`: scenarios of Spark streams and jobs (`make torture-eos`)
- `fuzz`: fuzzing of the decoders (`make fuzz`)
"""
