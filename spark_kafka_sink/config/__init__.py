"""The options of a write: the user's option texts are parsed into a frozen, validated `SinkConfig`.

Options are parsed once, on the driver; the resulting config is sent to every task. The modules do
no I/O, except that `profiles` reads files from `conf/` and `security` can read a `sasl.jaas.config`
that is set as a reference.

In reading order:

- `model`: the result: `ProducerConfig` and `SinkConfig`
- `builder`: build the configuration: option names, profile, values, rules, then security
- `names`: sort options by name; lists of ignored and rejected names
- `aliases`: librdkafka's names for options that have a different name in Java's producer
- `profiles`: read a profile from `conf/`, and parse Java's properties syntax
- `option`: one option: name, type, default and allowed values; parse its text
- `options`: the table of all options, with Java's defaults and this sink's
- `enums`: enums of options whose values are names
- `rules`: rules across options: contradictions and derived values
- `addresses`: parse `kafka.bootstrap.servers`
- `exactly_once`: options and config of exactly-once writes
- `throttling`: options and config of buffer share, rate limits and circuit breakers
- `formats`: options and config of the formats of key and value
- `schema_registry`: options and config of the schema registry
- `dead_letters`: options and policy for rows that cannot be written
- `topic_creation`: options and config of the topic that the driver creates
- `security`: options and config of TLS and SASL
"""
