"""Batches on their way from the writer thread to the sender thread, and their memory.

In reading order:

- `session_buffer`: the session's state, memory limits, batches and queues
- `session_state`: the session's lock and error, and the writer's waits
- `buffer_pool`: the accounting for buffer.memory
- `batch`: a batch of records for one partition
- `delivery_progress`: the attempts to deliver a batch
- `batch_layout`: lays out the rows of a chunk in batches
- `partition_draw`: draws partitions for rows without a key
- `batch_charges`: the memory of the session's batches
- `compressor`: compresses closed batches in a separate thread
- `close_rules`: when a batch is closed
- `accumulator`: open batches, which are closed, drained and completed
- `batch_queues`: queues of closed batches, one for each partition
- `assigned_topics`: topics whose rows without a partition get one when they are appended
- `batch_listener`: the interface through which reports and debug events follow the batches
"""
