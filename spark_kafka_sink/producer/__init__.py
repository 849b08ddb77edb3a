"""The producer for one Spark task: sends rows to Kafka and returns a delivery report.

Three threads do the work. The writer thread passes each chunk of rows through the stages of
`append`, the codec thread compresses closed batches, and the sender thread drains them into Produce
requests. `buffer` contains the state that the threads share.

In reading order:

- `session`: the writer thread's entry point (append, flush, report)
- `session_assembly`: creates the parts of a session
- `session_pool`: the reuse of clients and producer ids by the next task
- `producer_client`: the client of sessions
- `session_settings`: a session's options
- `rows`: a chunk of rows before encoding
- `bad_rows`: the errors of individual rows, their count, and dead letters
- `append`: the writer thread's stages, from validation to the accumulator
- `limits`: rate limits, buffer quotas, circuit breakers, and the sizes that brokers have rejected
- `buffer`: batches and memory accounting, shared by writer and sender
- `reporting`: the session's report and debug events
- `send`: the sender thread, from draining batches to handling responses
- `statistics`: statistics of the session in librdkafka's structure
- `transactions`: the session's transaction and its coordinator
- `producer_id`: producer id and epoch, and the InitProducerId request
- `acl_advisor`: determines the ACL missing after an authorization failure, and how to grant it
- `topic_creator`: creates the missing topics of a write
"""
