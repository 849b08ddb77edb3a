"""The sender thread: drains batches into Produce requests and acts on the responses.

In reading order:

- `sender`: runs the loop (close, drain, send, poll, complete) and builds Produce requests
- `drainer`: selects the batches of the next request to each broker
- `partition_state`: tracks the order, sequences, epochs and gaps of each partition
- `response_handler`: determines the next step for an error code, and carries it out
- `batch_completion`: completes batches: acknowledged, failed or expired (delivery.timeout.ms)
- `batch_failure`: creates the errors for failed batches, with hints
- `batch_split`: splits rejected batches and creates dead letters for rejected records
- `librdkafka_statistics`: statistics in librdkafka's JSON format
"""
