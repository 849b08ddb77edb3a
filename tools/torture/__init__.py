"""Seeded faults between a producer and a real three-node Kafka, and what must hold after them."""
