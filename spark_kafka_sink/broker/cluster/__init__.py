"""The state of the whole cluster: what Kafka's controller, ReplicaManager and LogManager know.

Reading order: cluster (all of it together), topics and topic_store with new_topic and assignments
(which topics there are, and where), node_states and node_control (which nodes live), elections (who
leads), replica_manager (who is in sync, high watermarks), reassignments, log_manager (retention),
dynamic_configs. storage_backend opens the storage that the options ask for.
"""
