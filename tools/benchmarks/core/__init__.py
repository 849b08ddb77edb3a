"""The producer core and what it is made of, beside librdkafka in C and Java's own tools."""
