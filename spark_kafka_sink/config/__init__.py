"""Parse the user's options for a write into a frozen, validated `SinkConfig`.

Options are parsed once, on the driver; the resulting config is sent to every task. The modules do
no I/O, except that `profiles` reads files from `conf/` and `security` can read a `sasl.jaas.config`
that is set as a reference.

In reading order:

- `sink_config`: the resulting `ProducerConfig` and `SinkConfig`
- `client_config`: the part of them that a Kafka client uses, and its options
- `config_builder`: parse all options of a write, and convert their values
- `known_options`: classify options by name; lists of ignored and rejected names
- `aliases`: librdkafka's names for options that have a different name in Java's producer
- `profiles`: read a profile from `conf/`, and parse Java's properties syntax
- `units`: the unit of an option's number, and numbers with a unit such as "64MB"
- `option_definition`: the definition of an option (name, type, default, allowed values)
- `option_parser`: parse a value; the errors for values that are not allowed
- `option_tables`: the tables of all other options, and the fields that they set
- `enums`: enums for options that accept a fixed set of names
- `rules`: rules that involve several options: contradictions and derived values
- `addresses`: parse `kafka.bootstrap.servers`
- `exactly_once`: options and config of exactly-once writes
- `throttling`: options and config for the buffer share, rate limits and circuit breakers
- `formats`: options and config for the formats of keys and values
- `schema_registry`: options and config of the schema registry
- `dead_letters`: options and policy for rows that cannot be written
- `topic_creation`: options and config for topics that a write creates
- `security`: options and config of TLS and SASL
"""
