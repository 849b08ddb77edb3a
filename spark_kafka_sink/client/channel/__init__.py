"""The way to a broker and how it is protected; Kafka's TransportLayer and Authenticator.

To read in this order: resolver.py (names to addresses), transport.py (a socket) and
tls_transport.py (the same, encrypted); state.py (where a connection stands), authenticator.py (a
SASL login) and login_threads.py (its slow steps); channel_builder.py (what the options ask for);
diagnosis.py (why a connection ended) and connection_failures.py (when to try no longer).
"""
