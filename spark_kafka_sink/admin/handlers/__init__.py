"""Handlers of single APIs: how a request is written, and how its response and errors are read.

In reading order:

- `actions`: retriable error codes of coordinators and leaders, and FindCoordinator
- `transactions`: InitProducerId, EndTxn, DescribeTransactions, ListTransactions, DescribeProducers
- `log`: AddPartitionsToTxn, Produce, ListOffsets and Fetch
- `topics`: Metadata, CreateTopics and DescribeConfigs
"""
