"""One connection to a broker: sockets, TLS, SASL and failures.

The counterparts in Kafka are TransportLayer, Authenticator and ChannelBuilder.

In reading order:

- `background`: runs blocking calls on separate threads
- `channel_state`: the states of a connection
- `host_names`: the resolution of host names
- `transport`: a non-blocking TCP socket
- `tls_transport`: TLS over another transport
- `authenticator`: SASL authentication
- `channel_builder`: creates transports and logins according to kafka.security.protocol
- `diagnosis`: describes why a connection failed
- `connection_failures`: collects the failures of all brokers, and decides when to give up
"""
