"""The sender thread: drains batches into Produce requests and acts on the responses.

In reading order:

- `sender`: runs the loop (close, drain, send, poll, complete)
- `drainer`: selects the batches of the next request to each broker
- `partition_state`: tracks the order, sequences, epochs and gaps of a partition
- `session_partitions`: the states of all partitions
- `request_sender`: connects to leaders and sends drained batches
- `produce_request`: builds Produce requests
- `identity_requests`: requests the producer id, and drives the transaction
- `error_policy`: determines the next step for an error code
- `batch_result`: the response to a batch
- `response_handler`: carries out the next step
- `batch_completer`: completes batches: acknowledged, failed or expired (delivery.timeout.ms)
- `failure_handler`: ends the session and its transaction with the first permanent failure
- `delivery_timeout`: the time from which delivery.timeout.ms of a batch is measured
- `batch_failure`: creates the errors for failed batches, with hints
- `batch_split`: splits batches that are too large for a broker
- `rejection_remedy`: determines what happens to the records of a rejected batch
- `rejection_handler`: handles rejected batches: dead letters, retries of the other records, splits
- `dead_letter_batches`: builds and corrects the batches of dead letters
- `dry_run`: the requests of a dry run, which are not sent, and the comparison of codecs
"""
