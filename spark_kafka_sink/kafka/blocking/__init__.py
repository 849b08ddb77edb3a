"""Requests that are sent and awaited on the caller's thread; `admin` and `logs` consist of them.

In reading order:

- `blocking_client`: a Kafka client that runs on the caller's thread and is reused between calls
- `coordinator_cache`: the coordinators of transactional ids, as the brokers last returned them
- `lookups`: determines the broker to which requests for a key are sent
- `api_driver`: sends requests for many keys, and retries each key until its result is final
- `coordinator_lookup`: looks up the coordinators of transactional ids
- `partition_offsets`: the first offset of a partition, and the offset at which readers must stop
"""
