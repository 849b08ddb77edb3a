"""What handlers, authorization and fault injection share to process the requests of all APIs.

In reading order:

- `shapes`: the fields for topics and partitions in requests, and for errors in responses
- `response_error`: the error of a topic that cannot be created, found or changed
- `purgatory`: delayed requests, which wait for a change or a deadline
"""
