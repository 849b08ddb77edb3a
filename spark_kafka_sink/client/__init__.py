"""One Kafka client: connections, metadata, and the thread that runs a session's sender on them.

To read in this order: channel (the way to a broker: sockets, TLS, SASL), request.py,
connection.py (one connection's protocol, without I/O), broker_connection.py (both, for one
broker), dialer.py (begins connections), network.py (all brokers behind one selector), with
backoff.py, connection_metrics.py and outages.py; cluster.py (the snapshot) and
metadata.py, which keeps it fresh, with rebootstrap.py, removed_partitions.py and
size_limits.py; client.py holds it all and runs the thread.
"""
