"""Consumer groups and transactions, as managed by Kafka's coordinators.

In reading order:

- `group_coordinator`: all consumer groups by id, their timeouts and their configs
- `classic_group`: one consumer group of the classic protocol: members, rebalances, committed
  offsets
- `transaction_state`: the state of one transactional id, and its transitions as pure functions
- `transaction_coordinator`: all transactional ids, producer ids, transaction markers, verification
  of partitions, and pending offsets
"""
