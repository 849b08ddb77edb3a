"""The sender thread: drains batches into Produce requests and acts on the responses.

In reading order:

- `sender`: one iteration of the loop: close, drain, send, poll, complete; builds Produce requests
- `drainer`: selects the batches of the next request to each broker
- `partition_state`: the order, sequences, epochs and gaps of each partition
- `error_policy`: the next step for each error code
- `response_handler`: carries out the decisions of `error_policy`
- `batch_completion`: completes batches: acknowledged, failed or expired (delivery.timeout.ms)
- `batch_failure`: the errors that failed batches raise, with hints
- `batch_split`: splits refused batches and creates dead letters for refused records
- `statistics`: statistics in librdkafka's JSON format
"""
