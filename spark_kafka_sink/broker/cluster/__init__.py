"""The state of the whole cluster, as Kafka's controller, ReplicaManager and LogManager keep it.

In reading order:

- `cluster`: `Cluster`, which holds all state; dynamic configs, retention and flush.ms
- `topics`: all topics; validation of new ones, replica assignment, and storage across restarts
- `node_states`: which nodes are up, paused, stopped or fenced
- `node_control`: stopping, starting and pausing nodes while the cluster runs
- `elections`: leader elections
- `replica_manager`: in-sync replicas, high watermarks and partition reassignments
- `storage_backend`: opening the storage backend that the broker's options select
"""
