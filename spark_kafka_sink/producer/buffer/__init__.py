"""What waits between the writer's and the sender's thread: batches, and the memory they take.

To read in this order: session_state.py (the one lock, and what the writer waits for),
buffer_pool.py (buffer.memory), quotas.py, batch.py, accumulator.py, compressor.py; then
circuit_breaker.py, rate_limiter.py and breakers.py.
"""
