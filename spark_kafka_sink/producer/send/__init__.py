"""The sender thread's way: drain, in-flight batches, requests, and what responses lead to.

To read in this order: sender.py (one turn of the loop), drainer.py (what goes into the next
requests), in_flight.py (order and retries of one partition), produce.py (the request and its
response), error_policy.py (the retry rule), response_handler.py (carries it out),
batch_completion.py, expiry.py, renumbering.py and epoch_bump.py (how a batch ends, what
delivery.timeout.ms ends, how a partition starts over); then record_errors.py and splitter.py
(batches taken apart), init_producer_id.py and statistics.py. send_context.py is what they share.
"""
