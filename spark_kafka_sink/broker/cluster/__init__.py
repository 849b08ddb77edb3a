"""The state of the whole cluster (Kafka's controller, ReplicaManager and LogManager).

In reading order:

- `cluster`: `Cluster`, which contains all state
- `dynamic_configs`: configs that can change while the broker runs
- `log_manager`: retention and flush.ms
- `topic_store`: the storage of topics across restarts
- `topics`: all topics, and their validation
- `replica_placer`: chooses and checks the nodes of replicas
- `nodes`: the state of each node (up, paused, stopped or fenced), and operations that change it
- `elections`: leader elections and partition reassignments
- `replica_manager`: in-sync replicas and high watermarks
- `jumping_clock`: the clock, whose time tests can change
"""
