"""A Kafka client without a producer, from bytes on the wire to blocking requests.

All clients have a `ClientConfig`: the driver and readers connect with the settings of the write.

In reading order:

- `protocol`: frames, messages and API versions, without I/O
- `records`: encode and decode records as columns
- `security`: TLS contexts and SASL exchanges
- `client`: connections, cluster metadata and the sender thread
- `blocking`: a client for requests on the caller's thread
- `admin`: blocking requests for topics and transactions
- `logs`: blocking requests that read and append records
"""
