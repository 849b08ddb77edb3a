"""Batches on their way from the writer thread to the sender thread, and their memory.

In reading order:

- `session_state`: the session's lock and error, and the methods with which the writer waits
- `buffer_pool`: accounting for buffer.memory, and quotas for each partition and broker
- `batch`: a batch of records for one partition, and its compression in a separate thread
- `accumulator`: open batches, and queues of closed batches
- `rate_limiter`: client-side rate limits, and the ramp-up after errors
- `events`: events of batches and producer ids, for kafka.debug
- `breakers`: circuit breakers for each partition and broker, and for the job
"""
