"""Consumer groups and transactions, as managed by Kafka's coordinators.

In reading order:

- `group_coordinator`: all consumer groups by id, their timeouts and their configs
- `classic_group`: a consumer group of the classic protocol, with members and rebalances
- `committed_offsets`: the committed offsets of a group
- `transaction_state`: the state of a transactional id, and its transitions as pure functions
- `transaction_coordinator`: all transactional ids, transaction markers, and verification of
  partitions
- `producer_id_manager`: allocation of producer ids
- `transactional_offsets`: offsets that are pending until a transaction ends
"""
