"""Blocking requests of one thread: transactions, topics, and reading and appending to a log.

The driver, its planning and commit processes, and the command line use it; tasks do not.

In reading order:

- `call`: one request to one broker, and its outcome
- `blocking_client`: a Kafka client that runs on the caller's thread, and a cache of idle clients
- `api_driver`: sends requests for many keys, each retried until its answer is final
- `lookups`: which broker a key's request is sent to
- `handlers`: one class per API, with its request, its response and its retriable errors
- `transaction_admin`: starts, ends, describes, lists and fences transactions
- `topic_admin`: creates topics, and reads topic and broker settings
- `log_reader`: reads the committed records of one partition
- `appender`: appends records to one partition in a transaction
"""
