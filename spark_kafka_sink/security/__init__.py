"""TLS contexts and SASL exchanges of a client, without sockets: `client` moves the bytes."""
