"""The APIs that the broker serves: one handler function per API, grouped by subject.

A handler is a function ``(context: RequestContext) -> Answer``. It returns the response's fields,
named as in the newest version of the response. A `Handler` constant below the function registers it
with its API key and versions. Each module docstring lists the versions and behaviors served.

To add an API, define the function and its `Handler` constant in the module of its subject, add the
constant to `_SERVED` in `registry`, and add its row to `spark_kafka_sink.broker.releases`.
ApiVersions announces everything in `_SERVED`.

In reading order:

- `request_context`: `RequestContext`, `Handler`, `Answer`, and lookups that handlers share
- `registry`: all handlers by API key, also limited to the versions of a Kafka release
- `api_versions`: ApiVersions
- `metadata`: Metadata, DescribeTopicPartitions, DescribeCluster, FindCoordinator, and authorized
  operations
- `produce`: Produce, including requests that wait for acks=all
- `fetch`: Fetch
- `list_offsets`: ListOffsets and OffsetForLeaderEpoch
- `topics`: CreateTopics, CreatePartitions, DeleteTopics and DeleteRecords
- `consumer_groups`: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat,
  DescribeGroups, ListGroups and DeleteGroups
- `group_offsets`: OffsetCommit, OffsetFetch and OffsetDelete
- `transactions`: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn and
  WriteTxnMarkers
- `describe_transactions`: DescribeTransactions, ListTransactions and DescribeProducers
- `config_resources`: resources that have configs: topics, brokers, groups and loggers
- `describe_configs`: DescribeConfigs and ListConfigResources
- `alter_configs`: AlterConfigs and IncrementalAlterConfigs
- `reassignments`: AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders
- `describe_log_dirs`: DescribeLogDirs
- `sasl`: SaslHandshake and SaslAuthenticate outside of authentication
"""
