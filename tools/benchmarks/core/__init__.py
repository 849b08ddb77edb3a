"""Benchmarks of the producer core and its parts, compared with librdkafka and Java's tools."""
