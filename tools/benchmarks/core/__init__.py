"""Benchmarks of the producer core and its parts, compared with librdkafka and Java's tools.

- `contestants`: the producers, and the jobs that they run
- `rates`: throughput and latency
- `encoders`: the encoders alone
- `codec`: the cost of compression
"""
