"""A real secured Kafka: certificates, token issuer, KDC, listeners and client configurations.

Read `listeners` first, then `client_configs`: the client options for each listener.
"""
