"""Kafka's wire protocol: frames, headers, messages and API versions, without I/O.

Message classes and the generic writer come from kio. Produce requests and responses have
hand-written readers and writers, because they carry the data.

In reading order:

- `frame`: split received bytes into frames
- `send_buffers`: write messages as buffers for sending
- `error_codes`: Kafka's error codes by name, and groups of codes that are handled the same way
- `topic_partition`: a partition of a topic
- `message_format`: encode and decode messages, with a check of every length
- `acl`: operations and resource types of ACLs
- `config_resource_type`: types of resources that have configs
- `list_offsets`: special timestamps of ListOffsets
- `isolation_level`: isolation levels of readers
- `versions`: API keys, the versions that this client supports, and finalized features
- `messages`: request and response headers, and messages built from plain values
- `produce_layout`: the layout of Produce requests and responses, which client and broker share
- `produce`: write Produce requests and read their responses, without copying records
- `transactions`: transaction states, protocol versions and requests
"""
