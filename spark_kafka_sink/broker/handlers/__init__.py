"""The APIs that the broker supports, with one handler function per API, grouped by subject.

A handler is a function ``(context: RequestContext) -> HandlerResult``. It returns the response's
fields, with their names in the newest version. Its docstring lists the supported versions and their
behavior.

CONTRIBUTING.md lists the steps to add an API. ApiVersions announces all APIs in `_SERVED` of
`served_apis`.

In reading order:

- `request_context`: `RequestContext`, `ServedApi`, `HandlerResult`, and loops over the items of
  requests
- `served_apis`: the table of all handlers, optionally limited to the versions of a Kafka release
- `api_versions`: ApiVersions, and SASL requests outside of authentication
- `cluster`: DescribeCluster, FindCoordinator and DescribeLogDirs
- `metadata`: Metadata and DescribeTopicPartitions
- `produce`: Produce, including requests that wait for acks=all
- `fetch`: Fetch, ListOffsets and OffsetForLeaderEpoch
- `topics`: CreateTopics, CreatePartitions, DeleteTopics, DeleteRecords,
  AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders
- `consumer_groups`: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat,
  DescribeGroups, ListGroups and DeleteGroups
- `group_offsets`: OffsetCommit, OffsetFetch and OffsetDelete
- `transactions`: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn,
  WriteTxnMarkers, DescribeTransactions, ListTransactions and DescribeProducers
- `configs`: DescribeConfigs and ListConfigResources
- `config_changes`: AlterConfigs and IncrementalAlterConfigs
"""
