"""What limits a session: rates, the share of each partition in the buffer, and circuit breakers.

In reading order:

- `rate_limiter`: the token buckets of one task
- `ramp`: the ramp-up of rates after errors
- `buffer_quotas`: the share of the buffer for each partition and broker
- `breaker`: a circuit breaker, without threads and I/O
- `circuit_breakers`: the circuit breakers of a session: for partitions, brokers and the job
- `size_limits`: the sizes that brokers have rejected
"""
