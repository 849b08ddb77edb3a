"""Benchmarks of the producer core and its parts, compared with librdkafka in C and Java's tools."""
