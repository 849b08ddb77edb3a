"""The state of the whole cluster, as Kafka's controller, ReplicaManager and LogManager keep it.

In reading order:

- `cluster`: `Cluster`, which holds all state; dynamic configs, retention and flush.ms
- `topics`: all topics; validation of new ones, replica assignment, and storage across restarts
- `nodes`: which nodes are up, paused, stopped or fenced; stopping, starting and pausing them
- `elections`: leader elections
- `replica_manager`: in-sync replicas, high watermarks and partition reassignments
"""
