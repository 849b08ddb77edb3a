"""The sender thread: drains batches into Produce requests and acts on the responses.

In reading order:

- `sender`: one turn of the loop: close, drain, send, poll, complete
- `send_context`: the state that the parts of the sender share
- `drainer`: selects the batches of the next request to each broker
- `in_flight`: in-flight batches and retries of one partition, in order
- `produce`: builds the Produce request
- `error_policy`: the retry rule: the next step for each error code
- `response_handler`: carries out the decisions of `error_policy`
- `batch_completion`: completes batches: acknowledged, failed or expired (delivery.timeout.ms)
- `batch_failure`: the errors that failed batches raise, with hints
- `epoch_bump`: new sequences for a partition, in a new epoch or within a transaction
- `record_errors`: splits refused batches and creates dead letters for refused records
- `init_producer_id`: requests the producer id
- `statistics`: statistics in librdkafka's JSON format
"""
